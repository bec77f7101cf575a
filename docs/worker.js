// Opened from disk, a page may not start a worker. This one runs the worker's script in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const address = new URL(url, document.baseURI).href;
      this.frame = frame;
      this.inside = new Promise((ready) => {
        frame.addEventListener("load", () => {
          const own = frame.contentWindow;
          const load = (source) => new Promise((done, fail) => {
            const script = frame.contentDocument.createElement("script");
            script.onload = done;
            script.onerror = fail;
            script.src = source;
            frame.contentDocument.body.append(script);
          });
          own.importScripts = (...sources) => Promise.all(sources.map(load));
          own.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          load(address).then(() => ready(own));
        }, { once: true });
        frame.srcdoc = "<!doctype html><body></body>";
        document.body.append(frame);
      });
    }
    postMessage(data) { this.inside.then((own) => own.dispatchEvent(new MessageEvent("message", { data }))); }
    terminate() { this.frame.remove(); }
  };
}
