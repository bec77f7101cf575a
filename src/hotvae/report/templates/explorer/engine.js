"use strict";
// Lets the browser do what else it has to do. (Timers would wait for 4 ms each.)
const breath = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(0);
  });

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

  // Has all numbers unpacked by a worker, and the places dealt out; what the page itself needs comes back.
  async open(pieces, source) {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" })),
      n = this.facts.n_places;
    // Two thirds of the processors: the page itself, and whatever else is open, want some as well.
    const count = Math.max(
      1,
      Math.min(4, Math.ceil(((navigator.hardwareConcurrency || 2) * 2) / 3), Math.ceil(n / 200)),
    );
    this.workers = Array.from({ length: count }, () => new Worker(address));
    this.from = this.workers.map((_, k) => Math.round((k * n) / count));
    this.nPlaces = n;
    const [first] = this.workers;
    for (const piece of pieces) {
      // one at a time: the page stays awake
      first.postMessage({ type: "text", text: piece.textContent });
      piece.remove();
      await breath();
    }
    const { arrays, parts } = await this.reply(first, {
      type: "unpack",
      index: this.facts.arrays,
      from: [...this.from, n],
    });
    const facts = {
      law: this.facts.law,
      stand_in: this.facts.stand_in,
      covariates: this.facts.covariates,
      precision: this.facts.precision,
    };
    const shared = Object.fromEntries(Object.entries(arrays).filter(([name]) => /^(law|stand_in)\./.test(name)));
    await Promise.all(
      this.workers.map((worker, k) =>
        this.reply(
          worker,
          { type: "hold", facts, arrays: { ...shared, ...parts[k] }, from: this.from[k] },
          Object.values(parts[k]).map(({ values }) => values.buffer),
        ),
      ),
    );
    for (const worker of this.workers) worker.onmessage = ({ data }) => this.hear(data);
    return arrays;
  }

  reply(worker, message, moved = []) {
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage(message, moved);
    });
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
