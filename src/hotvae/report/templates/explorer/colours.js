"use strict";
// Colours that are told apart by all eyes: one hue scale that only gets darker (or lighter), and blue against orange.
const Colours = (() => {
  const light = ["#fbf6d9", "#d9ecc4", "#a3d8b9", "#62bdb6", "#3a9cb0", "#2f79a4", "#2f558f", "#2b3470", "#1d1a47"];
  const dark = ["#22303a", "#23465a", "#235f77", "#2a7a8c", "#3f9694", "#69b18e", "#a3c97f", "#dddd7a", "#fdf3a4"];
  const two = {
    light: ["#a5420a", "#d9772b", "#f0b27f", "#ffffff", "#94c3dd", "#4589b9", "#134b86"],
    dark: ["#ffa25e", "#d27a3a", "#8a5433", "#2c3238", "#2f6285", "#4593c6", "#8ccbf5"],
  };
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  function scale(stops) {
    const parts = stops.map(rgb),
      found = new Uint32Array(256);
    for (let i = 0; i < 256; i++) {
      const at = (i / 255) * (parts.length - 1),
        low = Math.min(Math.floor(at), parts.length - 2),
        share = at - low;
      const [r, g, b] = [0, 1, 2].map((k) => Math.round(parts[low][k] + share * (parts[low + 1][k] - parts[low][k])));
      found[i] = (255 << 24) | (b << 16) | (g << 8) | r;
    }
    return found;
  }
  const scales = { light: scale(light), dark: scale(dark), lightChange: scale(two.light), darkChange: scale(two.dark) };
  const mix = (a, b, share) => {
    const part = (at) => Math.round(((a >>> at) & 255) * (1 - share) + ((b >>> at) & 255) * share) << at;
    return ((255 << 24) | part(16) | part(8) | part(0)) >>> 0;
  };
  const css = (number) => `rgb(${number & 255} ${(number >>> 8) & 255} ${(number >>> 16) & 255})`;
  const number = (hex) => {
    const [r, g, b] = rgb(hex);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  };
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  return {
    of: (change) => scales[(isDark() ? "dark" : "light") + (change ? "Change" : "")],
    land: () => number(isDark() ? "#35383a" : "#dad9d5"),
    hatch: () => number(isDark() ? "#0d0f11" : "#6d6a66"),
    mix,
    css,
    isDark,
  };
})();
