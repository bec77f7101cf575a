"use strict";
// The engine: workers that hold the places, a part each, and answer what the page asks.
class Engine {
  constructor(facts, onLayer) {
    this.facts = facts;
    this.onLayer = onLayer;
    this.waiting = new Map();
    this.nextId = 1;
    this.number = 0;
    this.spent = [];
  }

  // Unpacks all numbers in a worker, and deals the places out; what the page itself needs comes back.
  async open(block, source) {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const first = new Worker(address);
    const arrays = await new Promise((resolve, reject) => {
      first.onmessage = ({ data }) => resolve(data.arrays);
      first.onerror = (event) => reject(new Error(event.message));
      first.postMessage({ type: "unpack", text: block, index: this.facts.arrays });
    });
    const [n] = arrays.logits.shape;
    // Two thirds of the processors: the page itself, and whatever else is open, want some as well.
    const count = Math.max(1, Math.min(4, Math.ceil((navigator.hardwareConcurrency || 2) * 2 / 3), Math.ceil(n / 200)));
    this.workers = [first];
    while (this.workers.length < count) this.workers.push(new Worker(address));
    this.from = this.workers.map((_, k) => Math.round(k * n / count));
    this.nPlaces = n;
    const shared = Object.entries(arrays).filter(([name]) => /^(law|stand_in)\./.test(name));
    const dealt = ["logits", "gates", "covariates"].filter((name) => arrays[name]);
    const facts = { law: this.facts.law, stand_in: this.facts.stand_in, covariates: this.facts.covariates, precision: this.facts.precision };
    await Promise.all(this.workers.map((worker, k) => new Promise((resolve, reject) => {
      const from = this.from[k], to = this.from[k + 1] ?? n, own = Object.fromEntries(shared);
      for (const name of dealt) {
        const { shape: [, width], values } = arrays[name];
        own[name] = { shape: [to - from, width], values: values.slice(from * width, to * width) };
      }
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = ({ data }) => { worker.onmessage = (event) => this.hear(event.data); resolve(data); };
      worker.postMessage({ type: "hold", facts, arrays: own, from }, dealt.map((name) => own[name].values.buffer));
    })));
    delete arrays.logits;
    return arrays;
  }

  hear(data) {
    if (data.type === "answer") {
      this.waiting.get(data.id)(data.answer);
      this.waiting.delete(data.id);
    } else if (data.number === this.number) {
      if (data.type === "layer") {
        this.layer.set(data.values, data.from);
        if (data.done) this.left--;
        this.onLayer(this.layer, this.left === 0);
      } else if (data.type === "spent") this.spent.push(data.milliseconds);
    }
  }

  // Say what is known and moved everywhere, and what the map shows; the answer comes to onLayer.
  paint(told, shifts, layer) {
    this.number++;
    this.left = this.workers.length;
    this.layer = new Float32Array(this.nPlaces).fill(NaN);
    for (const worker of this.workers) worker.postMessage({ type: "world", number: this.number, told, shifts, layer });
  }

  ask(question) {
    const k = this.from.findLastIndex((from) => from <= question.cell);
    return this.send(this.workers[k], question);
  }

  // All probabilities of all places as things are, place by place.
  async all() {
    const parts = await Promise.all(this.workers.map((worker) => this.send(worker, { what: "all", cell: 0 })));
    return (place, label) => {
      const k = this.from.findLastIndex((from) => from <= place);
      return parts[k][(place - this.from[k]) * this.facts.labels.length + label];
    };
  }

  send(worker, question) {
    const id = this.nextId++;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      worker.postMessage({ type: "ask", id, ...question });
    });
  }
}
