"use strict";
// Matrix products and the logistic function in WebAssembly, four numbers at a time; assembled from the listing below.
const Products = (() => {
  // --- an assembler of the few instructions that are needed: each is a list of bytes -------------------------------
  function whole(value) {
    const low = value & 127,
      rest = value >> 7;
    return rest === -((low >> 6) & 1) ? [low] : [low | 128, ...whole(rest)]; // signed LEB128
  }
  const length = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...length(value >>> 7)]);
  const sized = (bytes) => [...length(bytes.length), ...bytes];
  const get = (local) => [0x20, local],
    set = (local) => [0x21, local],
    number = (value) => [0x41, ...whole(value)],
    add = [0x6a],
    wide = (code, ...rest) => [0xfd, ...length(code), ...rest],
    word = (offset = 0) => [0x28, 2, ...length(offset)],
    load = (offset = 0) => wide(0x00, 2, ...length(offset)),
    loadSame = (offset = 0) => wide(0x09, 2, ...length(offset)), // one number, four times
    store = (offset = 0) => wide(0x0b, 2, ...length(offset)),
    same = (value) => [0x43, ...new Uint8Array(Float32Array.of(value).buffer), ...wide(0x13)],
    plus = wide(0xe4),
    minus = wide(0xe5),
    times = wide(0xe6),
    over = wide(0xe7);
  const step = (local, by) => [...get(local), ...by, ...add, ...set(local)];
  // Do something again and again until `local` has gone up to `end`.
  const upTo = (local, end, ...body) => [0x03, 0x40, ...body.flat(), ...get(local), ...get(end), 0x49, 0x0d, 0, 0x0b];
  const func = (nWords, nWide, ...body) =>
    sized([2, ...length(nWords), 0x7f, ...length(nWide), 0x7b, ...body.flat(), 0x0b]);

  // out += a · b, in tiles of 4 rows and 8 columns. Row k of b begins at b + which[k]; all is counted in bytes.
  function product() {
    const [out, outStep, a, aStep, b, which, outEnd, whichEnd, columnsEnd] = Array(9).keys();
    const [column, row, at, k, from] = [9, 10, 11, 12, 13],
      rows = [14, 15, 16, 17]; // where each row of a is read
    const [b0, b1, one] = [18, 19, 20],
      sums = [21, 22, 23, 24, 25, 26, 27, 28];
    const eachRow = (work) => [0, 1, 2, 3].flatMap(work);
    const carry = (r) => (r ? step(at, get(outStep)) : []); // to the next row of the tile
    return func(
      9,
      11,
      upTo(
        column,
        columnsEnd,
        [...get(out), ...get(column), ...add, ...set(row)],
        [...get(a), ...set(rows[0])],
        upTo(
          row,
          outEnd,
          [...get(row), ...set(at)],
          eachRow((r) => [
            ...carry(r),
            ...(r ? [...get(rows[r - 1]), ...get(aStep), ...add, ...set(rows[r])] : []),
            ...[...get(at), ...load(0), ...set(sums[2 * r]), ...get(at), ...load(16), ...set(sums[2 * r + 1])],
          ]),
          [...get(which), ...set(k)],
          upTo(
            k,
            whichEnd,
            [...get(b), ...get(column), ...add, ...get(k), ...word(), ...add, ...set(from)],
            [...get(from), ...load(0), ...set(b0), ...get(from), ...load(16), ...set(b1)],
            eachRow((r) => [
              ...[...get(rows[r]), ...loadSame(), ...set(one)],
              ...[0, 1].flatMap((c) => [
                ...[...get(sums[2 * r + c]), ...get(one), ...get(c ? b1 : b0), ...times, ...plus],
                ...set(sums[2 * r + c]),
              ]),
              ...step(rows[r], number(4)),
            ]),
            step(k, number(4)),
          ),
          [...get(row), ...set(at)],
          eachRow((r) => [
            ...carry(r),
            ...[...get(at), ...get(sums[2 * r]), ...store(0), ...get(at), ...get(sums[2 * r + 1]), ...store(16)],
          ]),
          // the fourth row was read to its end: the next tile begins a row below where it began
          [...get(rows[3]), ...get(which), ...get(whichEnd), 0x6b, ...add, ...get(aStep), ...add, ...set(rows[0])],
          [...get(at), ...get(outStep), ...add, ...set(row)],
        ),
        step(column, number(32)),
      ),
    );
  }

  // Each number becomes 1 / (1 + exp(-x)). exp is 2 to a whole power, times a series within half a power of 1.
  function logistic() {
    const [at, end, power, rest, series] = Array(5).keys();
    const factors = [1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1, 1];
    return func(
      0,
      3,
      upTo(
        at,
        end,
        [...get(at)],
        [...same(-87), ...same(87), ...get(at), ...load(), ...wide(0xe1), ...wide(0xe8), ...wide(0xe9), ...set(rest)],
        [...get(rest), ...same(Math.LOG2E), ...times, ...wide(0x6a), ...set(power)],
        // ln 2 in two parts, so that no digit of the rest is lost
        [...get(rest), ...get(power), ...same(0.693359375), ...times, ...minus],
        [...get(power), ...same(Math.LN2 - 0.693359375), ...times, ...minus, ...set(rest)],
        [...same(factors[0]), ...set(series)],
        factors.slice(1).flatMap((f) => [...get(series), ...get(rest), ...times, ...same(f), ...plus, ...set(series)]),
        [...same(1), ...same(1), ...get(series)],
        // 2 ** power: its bits are those of the exponent
        [...get(power), ...wide(0xf8), ...number(127), ...wide(0x11), ...wide(0xae), ...number(23), ...wide(0xab)],
        [...times, ...plus, ...over, ...store()],
        step(at, number(16)),
      ),
    );
  }

  const words = (text) => sized([...text].map((letter) => letter.charCodeAt(0)));
  const code = new Uint8Array([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...[1, ...sized([2, 0x60, ...sized(Array(9).fill(0x7f)), 0, 0x60, 2, 0x7f, 0x7f, 0])], // what functions take
    ...[2, ...sized([1, ...words("its"), ...words("memory"), 2, 0, 1])],
    ...[3, 3, 2, 0, 1],
    ...[7, ...sized([2, ...words("product"), 0, 0, ...words("logistic"), 0, 1])],
    ...[10, ...sized([2, ...product(), ...logistic()])],
  ]);
  const memory = new WebAssembly.Memory({ initial: 1 });
  const { product: multiply, logistic: squash } = new WebAssembly.Instance(new WebAssembly.Module(code), {
    its: { memory },
  }).exports;

  // A table of numbers in the memory of the functions. Rows are padded to whole tiles; what pads them is 0.
  let used = 0;
  const upToTile = (count, tile) => Math.ceil(count / tile) * tile;
  class Matrix {
    constructor(rows, columns, type = Float32Array) {
      Object.assign(this, { rows, columns, type, at: used, step: upToTile(columns, 8) });
      used += 4 * upToTile(rows, 4) * this.step;
      const missing = used - memory.buffer.byteLength;
      if (missing > 0) memory.grow(Math.ceil(missing / 65536));
    }
    // Memory that grew is another buffer.
    get values() {
      if (this.kept?.buffer !== memory.buffer)
        this.kept = new this.type(memory.buffer, this.at, upToTile(this.rows, 4) * this.step);
      return this.kept;
    }
    row(r) {
      return this.values.subarray(r * this.step, r * this.step + this.columns);
    }
    static of(rows, columns, valueAt) {
      const found = new Matrix(rows, columns),
        { values, step } = found;
      for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) values[r * step + c] = valueAt(r, c);
      return found;
    }
  }

  // Which rows of a matrix take part in a product.
  function rowsOf(matrix, names, into = new Matrix(1, names.length, Int32Array)) {
    const values = into.values;
    for (let k = 0; k < names.length; k++) values[k] = 4 * names[k] * matrix.step;
    into.columns = names.length;
    return into;
  }

  // out += a · b for the first rows of a; its column k goes with row which[k] of b.
  function addProduct(out, a, b, which, nRows) {
    if (!which.columns || !nRows) return;
    multiply(
      ...[out.at, 4 * out.step, a.at, 4 * a.step, b.at, which.at],
      ...[out.at + 4 * out.step * upToTile(nRows, 4), which.at + 4 * which.columns, 4 * out.step],
    );
  }

  // All numbers of the first rows through the logistic function.
  const logisticOf = (matrix, nRows) => squash(matrix.at, matrix.at + 4 * matrix.step * nRows);

  return { Matrix, rowsOf, addProduct, logisticOf };
})();
