"use strict";
// The map: land, borders, places coloured by a value; panned, zoomed and picked with mouse, touch or keys.
class MapView {
  constructor(canvas, { facts, where, land, landLengths, borders, bordersLengths, inside }, on) {
    this.canvas = canvas;
    this.on = on;
    this.where = where;
    this.inside = inside;
    this.n = where.length / 2;
    this.side = facts.side;
    this.reach = facts.reach;
    this.lines = { land: MapView.pathsOf(land, landLengths), borders: MapView.pathsOf(borders, bordersLengths) };
    this.colours = new Uint32Array(this.n);
    this.hatch = true;
    this.pins = [];
    const xs = [],
      ys = [];
    for (let i = 0; i < this.n; i++) {
      xs.push(where[2 * i]);
      ys.push(where[2 * i + 1]);
    }
    const span = (list) => list.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    this.bounds = [...span(xs), ...span(ys)];
    this.data = document.createElement("canvas");
    this.view = { x: 0, y: 0, scale: 1 };
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  static pathsOf(points, lengths) {
    const found = [];
    for (let line = 0, at = 0; lengths && line < lengths.length; at += 2 * lengths[line++]) {
      const part = points.subarray(at, at + 2 * lengths[line]);
      let west = Infinity,
        east = -Infinity,
        south = Infinity,
        north = -Infinity;
      for (let i = 0; i < part.length; i += 2) {
        west = Math.min(west, part[i]);
        east = Math.max(east, part[i]);
        south = Math.min(south, part[i + 1]);
        north = Math.max(north, part[i + 1]);
      }
      found.push({ part, west, east, south, north });
    }
    return found;
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const first = !this.width;
    this.dots = Math.min(window.devicePixelRatio || 1, 2);
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * this.dots);
    this.canvas.height = Math.round(height * this.dots);
    this.data.width = width;
    this.data.height = height;
    this.index = new Int32Array(width * height);
    this.nearest = new Float32Array(width * height);
    if (first || !this.touched) this.home();
    else this.moved();
  }

  home() {
    if (!this.width) return;
    const [west, east, south, north] = this.bounds,
      margin = 2 * this.reach;
    this.least = Math.min(this.width / (east - west + margin), this.height / (north - south + margin)) * 0.94;
    this.view = { x: (west + east) / 2, y: (south + north) / 2, scale: this.least };
    this.moved();
  }

  look(x, y, scale) {
    const [west, east, south, north] = this.bounds;
    this.touched = true;
    this.view.scale = Math.min(Math.max(scale, 0.6 * this.least), 400 * this.least);
    this.view.x = Math.min(Math.max(x, west), east);
    this.view.y = Math.min(Math.max(y, south), north);
    this.moved();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = this.plane(px, py),
      scale = Math.min(Math.max(this.view.scale * factor, 0.6 * this.least), 400 * this.least);
    this.look(x - (px - this.width / 2) / scale, y + (py - this.height / 2) / scale, scale);
  }

  plane(px, py) {
    const { x, y, scale } = this.view;
    return [x + (px - this.width / 2) / scale, y - (py - this.height / 2) / scale];
  }

  screen(x, y) {
    return [
      (x - this.view.x) * this.view.scale + this.width / 2,
      (this.view.y - y) * this.view.scale + this.height / 2,
    ];
  }

  moved() {
    this.stale = true;
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  // Which place each dot of the screen belongs to; -1 for none.
  lay() {
    const { width, height, index, nearest, where } = this,
      { scale } = this.view;
    index.fill(-1);
    if (this.side) {
      const w = this.side[0] * scale,
        h = this.side[1] * scale;
      for (let i = 0; i < this.n; i++) {
        const [px, py] = this.screen(where[2 * i], where[2 * i + 1]);
        const left = Math.max(0, Math.round(px - w / 2)),
          right = Math.min(width, Math.max(Math.round(px + w / 2), Math.round(px - w / 2) + 1));
        const top = Math.max(0, Math.round(py - h / 2)),
          bottom = Math.min(height, Math.max(Math.round(py + h / 2), Math.round(py - h / 2) + 1));
        for (let y = top; y < bottom; y++) if (right > left) index.fill(i, y * width + left, y * width + right);
      }
      return;
    }
    nearest.fill(Infinity);
    const radius = Math.max(this.reach * scale, 2.5);
    for (let i = 0; i < this.n; i++) {
      const [px, py] = this.screen(where[2 * i], where[2 * i + 1]);
      if (px < -radius || py < -radius || px > width + radius || py > height + radius) continue;
      const top = Math.max(0, Math.ceil(py - radius)),
        bottom = Math.min(height - 1, Math.floor(py + radius));
      for (let y = top; y <= bottom; y++) {
        const dy = (y - py) * (y - py),
          half = Math.sqrt(radius * radius - dy);
        const left = Math.max(0, Math.ceil(px - half)),
          right = Math.min(width - 1, Math.floor(px + half));
        for (let x = left, at = y * width + left; x <= right; x++, at++) {
          const away = dy + (x - px) * (x - px);
          if (away < nearest[at]) {
            nearest[at] = away;
            index[at] = i;
          }
        }
      }
    }
  }

  paint() {
    if (!this.width) return;
    if (this.stale) {
      this.lay();
      this.stale = false;
    }
    const { canvas, width, height, index, colours, inside, hatch } = this;
    const style = getComputedStyle(canvas),
      colour = (name) => style.getPropertyValue(name).trim();
    const context = canvas.getContext("2d");
    context.setTransform(this.dots, 0, 0, this.dots, 0, 0);
    context.fillStyle = colour("--sea");
    context.fillRect(0, 0, width, height);
    this.trace(context, this.lines.land, true);
    context.fillStyle = colour("--land");
    context.fill();
    const picture = this.data.getContext("2d"),
      image = picture.createImageData(width, height);
    const dots = new Uint32Array(image.data.buffer),
      mark = this.hatchColour || 0xff555555;
    for (let y = 0, at = 0; y < height; y++) {
      for (let x = 0; x < width; x++, at++) {
        const place = index[at];
        if (place < 0) continue;
        dots[at] = hatch && inside && !inside[place] && (x + y) % 6 < 2 ? mark : colours[place];
      }
    }
    picture.putImageData(image, 0, 0);
    context.drawImage(this.data, 0, 0, width, height);
    this.trace(context, this.lines.borders, false);
    context.strokeStyle = colour("--border");
    context.lineWidth = 0.9;
    context.stroke();
    this.trace(context, this.lines.land, true);
    context.strokeStyle = colour("--coast");
    context.lineWidth = 0.9;
    context.stroke();
    for (const pin of this.pins) this.drawPin(context, pin, colour);
    this.on.drawn?.(this);
  }

  trace(context, lines, closed) {
    const [west, north] = this.plane(0, 0),
      [east, south] = this.plane(this.width, this.height);
    context.beginPath();
    for (const { part, ...box } of lines) {
      if (box.east < west || box.west > east || box.north < south || box.south > north) continue;
      for (let i = 0; i < part.length; i += 2) {
        const [x, y] = this.screen(part[i], part[i + 1]);
        if (i) context.lineTo(x, y);
        else context.moveTo(x, y);
      }
      if (closed) context.closePath();
    }
  }

  drawPin(context, { place, mark, second }, colour) {
    const [x, y] = this.screen(this.where[2 * place], this.where[2 * place + 1]);
    context.lineWidth = 2;
    context.fillStyle = colour(second ? "--second" : "--accent");
    context.strokeStyle = colour("--paper");
    context.beginPath();
    context.moveTo(x, y);
    context.bezierCurveTo(x - 14, y - 15, x - 10, y - 32, x, y - 32);
    context.bezierCurveTo(x + 10, y - 32, x + 14, y - 15, x, y);
    context.fill();
    context.stroke();
    context.fillStyle = colour("--paper");
    context.font = "bold 12px system-ui, sans-serif";
    context.textAlign = "center";
    if (mark) context.fillText(mark, x, y - 16);
    else {
      context.beginPath();
      context.arc(x, y - 20, 4, 0, 7);
      context.fill();
    }
  }

  pick(px, py) {
    const x = Math.round(px),
      y = Math.round(py);
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return -1;
    return this.index[y * this.width + x];
  }

  // The nearest place in a direction, for the arrow keys; without a start the one in the middle of the view.
  neighbour(place, dx, dy) {
    const fromX = place < 0 ? this.view.x : this.where[2 * place],
      fromY = place < 0 ? this.view.y : this.where[2 * place + 1];
    let best = place,
      least = Infinity;
    for (let i = 0; i < this.n; i++) {
      if (i === place) continue;
      const x = this.where[2 * i] - fromX,
        y = this.where[2 * i + 1] - fromY;
      const along = place < 0 ? 0 : x * dx + y * dy,
        aside = place < 0 ? Math.hypot(x, y) : Math.abs(x * dy) + Math.abs(y * dx);
      if (place >= 0 && along <= Math.max(aside, 1e-6)) continue;
      const cost = along + 2 * aside;
      if (cost < least) {
        least = cost;
        best = i;
      }
    }
    return best;
  }

  show(place) {
    const [x, y] = this.screen(this.where[2 * place], this.where[2 * place + 1]),
      edge = 40;
    if (x < edge || y < edge || x > this.width - edge || y > this.height - edge) {
      this.look(this.where[2 * place], this.where[2 * place + 1], this.view.scale);
    }
  }

  listen() {
    const canvas = this.canvas,
      fingers = new Map();
    let travelled = 0;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
      if (fingers.size === 1) travelled = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = at(event);
      if (!fingers.has(event.pointerId)) return this.on.hover?.(this.pick(...here), here);
      const before = [...fingers.values()];
      fingers.set(event.pointerId, here);
      const after = [...fingers.values()];
      const middle = (list) => [0, 1].map((k) => list.reduce((sum, point) => sum + point[k], 0) / list.length);
      const [a, b] = [middle(before), middle(after)];
      travelled += Math.hypot(b[0] - a[0], b[1] - a[1]);
      if (fingers.size === 2) {
        const apart = (list) => Math.hypot(list[0][0] - list[1][0], list[0][1] - list[1][1]) || 1;
        this.zoom(apart(after) / apart(before), ...b);
        travelled += 10;
      }
      if (travelled > 4) {
        const { x, y, scale } = this.view;
        this.look(x - (b[0] - a[0]) / scale, y + (b[1] - a[1]) / scale, scale);
      }
    });
    const lift = (event) => {
      if (fingers.delete(event.pointerId) && event.type === "pointerup" && travelled <= 4)
        this.on.pick(this.pick(...at(event)), event);
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => this.on.hover?.(-1));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp((-Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 120)) / 400), ...at(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (event.key in arrows && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        const [dx, dy] = arrows[event.key],
          { x, y, scale } = this.view;
        if (event.shiftKey) this.look(x + (dx * 80) / scale, y + (dy * 80) / scale, scale);
        else this.on.step(dx, dy);
      } else if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.home();
    });
  }
}
