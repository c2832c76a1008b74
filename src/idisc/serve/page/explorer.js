// The IDR explorer: shows which IDRs a pixel belongs to at each resolution, and their maps. An IDR can
// be pinned over the picture, and muted to see how depth changes without it.

const DIM = 225; // of 255: darkness of the picture where an IDR has no weight

/** Fills the explorer inside `root` and connects its controls. */
export async function openExplorer({ root, scene, data, about, maps, mute, showError }) {
  const byId = (id) => root.querySelector(`#${id}`);
  const [height, width] = about.maps;
  const levels = await readLevels();
  const state = { kind: "partition", pinned: null, muted: new Map() }; // [level, idr]; level -> Set of IDRs
  const whole = await scene.unpackedDepth(about.depth);
  const table = scene.bytes(about.change_colours);
  let [hovered, lastRequest] = [null, 0];
  let [effect, applied] = [null, new Map()]; // the response to the last muting, and its IDRs
  const hint = byId("belongs").textContent;
  const photo = await readPhoto();
  buildLevels();
  wire();
  byId("explorer").hidden = false;
  scene.addView(byId("explored"), (index) => {
    if (index >= 0) pin(...strongest(index));
  }, (index) => idrName(...strongest(index)));
  scene.addView(byId("without"), () => {}, effectAt);
  scene.watch(point);
  let shownScale = scene.state.scale;
  scene.watch(({ scale }) => {
    if (scale !== shownScale) showEffect();
    shownScale = scale;
  });
  await setMuted(state.muted);

  // Data

  async function readLevels() {
    const stream = new Blob([maps]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    let offset = 0;
    const next = (count) => {
      const part = bytes.subarray(offset, offset + count * height * width);
      offset += part.length;
      return part;
    };
    return about.levels.map((level) => {
      const attention = next(level.idrs);
      const partition = level.partition_peak ? next(level.idrs) : attention;
      const partition_peak = level.partition_peak || level.attention_peak;
      return { ...level, maps: { attention, partition }, peaks: { attention: level.attention_peak, partition: partition_peak } };
    });
  }

  /** Returns the RGBA of the picture at the size of the maps. */
  async function readPhoto() {
    const picture = byId("explored").querySelector("img");
    await picture.decode();
    const canvas = new OffscreenCanvas(width, height);
    const pen = canvas.getContext("2d");
    pen.drawImage(picture, 0, 0, width, height);
    return pen.getImageData(0, 0, width, height).data;
  }

  function mapOf(level, idr) {
    return level.maps[state.kind].subarray(idr * height * width, (idr + 1) * height * width);
  }

  /** Converts the index of a pixel of the scene's grid to that of a map; the corners agree. */
  function mapIndex(index) {
    const row = Math.round(Math.floor(index / scene.columns) / Math.max(1, scene.rows - 1) * (height - 1));
    return row * width + Math.round((index % scene.columns) / Math.max(1, scene.columns - 1) * (width - 1));
  }

  function weights(level, index) {
    const at = mapIndex(index);
    return Array.from({ length: level.idrs }, (_, idr) => mapOf(level, idr)[at] / 255 * level.peaks[state.kind]);
  }

  function idrName(number, idr) {
    return `IDR ${idr} of level ${number}`;
  }

  /** Returns level and number of the IDR with the largest weight at a pixel. */
  function strongest(index) {
    const all = levels.map((level) => weights(level, index));
    const largest = all.map((values) => Math.max(...values));
    const number = largest.indexOf(Math.max(...largest));
    return [number, all[number].indexOf(largest[number])];
  }

  /** Returns a function from a byte of a map to brightness, 0 to 1 between quantiles of the map. */
  function contrast(map, peak) {
    const counts = new Uint32Array(256);
    for (const value of map) counts[value]++;
    const [low, high] = about.quantiles.map((share) => {
      let [value, seen] = [0, counts[0]];
      while (seen < share * map.length && value < 255) seen += counts[++value];
      return value;
    });
    const range = Math.max(high - low, about.least_range / peak * 255);
    return (value) => Math.min(1, Math.max(0, (value - low) / range));
  }

  // Drawing

  /** Draws darkness over a picture where an IDR has little weight. */
  function dim(canvas, level, idr) {
    [canvas.width, canvas.height] = [width, height];
    if (idr === null) return;
    const [map, light] = [mapOf(level, idr), contrast(mapOf(level, idr), level.peaks[state.kind])];
    const shade = new ImageData(width, height);
    map.forEach((value, index) => { shade.data[4 * index + 3] = DIM * (1 - light(value)); });
    canvas.getContext("2d").putImageData(shade, 0, 0);
  }

  /** Draws a small picture that is bright where an IDR has weight. */
  function thumbnail(canvas, level, idr) {
    const step = Math.max(1, Math.floor(width / 80));
    [canvas.width, canvas.height] = [Math.floor(width / step), Math.floor(height / step)];
    const [map, light] = [mapOf(level, idr), contrast(mapOf(level, idr), level.peaks[state.kind])];
    const small = new ImageData(canvas.width, canvas.height);
    for (let row = 0; row < canvas.height; row++) {
      for (let column = 0; column < canvas.width; column++) {
        const [from, to] = [row * step * width + column * step, row * canvas.width + column];
        const share = 1 - DIM / 255 * (1 - light(map[from]));
        for (let channel = 0; channel < 3; channel++) small.data[4 * to + channel] = share * photo[4 * from + channel];
        small.data[4 * to + 3] = 255;
      }
    }
    canvas.getContext("2d").putImageData(small, 0, 0);
  }

  function buildLevels() {
    byId("levels").style.setProperty("--width", width);
    byId("levels").style.setProperty("--height", height);
    byId("levels").replaceChildren(...levels.map((level, number) => {
      const section = document.getElementById("level-template").content.cloneNode(true);
      const details = document.createElement("span");
      details.textContent = ` stride ${level.stride}, ${level.size[1]} x ${level.size[0]}`;
      section.querySelector("h3").append(`Level ${number}`, details);
      section.querySelector("img").src = data.photo;
      const group = section.querySelector(".idrs");
      group.setAttribute("aria-label", `IDRs of level ${number}; arrow keys move, Enter pins, M mutes`);
      group.append(...Array.from({ length: level.idrs }, (_, idr) => makeButton(number, idr)));
      group.addEventListener("keydown", (event) => handleKey(event, group));
      Object.assign(level, { spot: section.querySelector(".spot canvas"), note: section.querySelector(".spot-note"), buttons: [...group.children] });
      return section;
    }));
  }

  function makeButton(number, idr) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "idr";
    button.tabIndex = idr ? -1 : 0;
    button.title = idrName(number, idr);
    Object.assign(button.dataset, { level: number, idr });
    button.append(document.createElement("canvas"), document.createElement("i"));
    thumbnail(button.firstChild, levels[number], idr);
    const isPinned = () => state.pinned?.[0] === number && state.pinned[1] === idr;
    button.addEventListener("click", () => (isPinned() ? unpin() : pin(number, idr)));
    const preview = (on) => { hovered = on ? [number, idr] : null; showPinned(); };
    for (const name of ["pointerenter", "focus"]) button.addEventListener(name, () => preview(true));
    for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => preview(false));
    return button;
  }

  /** Handles the keys of a level: arrows move between its IDRs, which share one tab stop. */
  function handleKey(event, group) {
    const columns = getComputedStyle(group).gridTemplateColumns.split(" ").length; // fewer on a phone
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    const buttons = [...group.children];
    const at = buttons.indexOf(document.activeElement);
    if (event.key.toLowerCase() === "m" && at >= 0) {
      const { level, idr } = buttons[at].dataset;
      toggle(Number(level), Number(idr));
    } else if (event.key === "Escape" && state.pinned) {
      unpin();
    } else if (event.key in moves) {
      const next = buttons[at + moves[event.key]];
      if (next) {
        buttons[at].tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
    } else return;
    event.preventDefault();
  }

  // Display

  /** Shows the weights of all IDRs at the cursor, and the map of the strongest IDR of each level. */
  function point({ cursor }) {
    const words = [];
    levels.forEach((level, number) => {
      const found = cursor < 0 ? null : weights(level, cursor);
      const order = found ? [...found.keys()].sort((one, other) => found[other] - found[one]) : [];
      level.buttons.forEach((button, idr) => {
        button.lastChild.style.width = found ? `${100 * found[idr]}%` : 0;
        button.classList.toggle("strong", idr === order[0]);
      });
      const pinned = state.pinned?.[0] === number ? state.pinned[1] : null;
      const largest = level.dominant.indexOf(Math.max(...level.dominant));
      const shown = order[0] ?? pinned ?? largest;
      if (level.shown !== shown || level.kind !== state.kind) dim(level.spot, level, shown);
      Object.assign(level, { shown, kind: state.kind });
      level.note.textContent = found
        ? `IDR ${order[0]}: ${percent(found[order[0]])} of this pixel`
        : `IDR ${shown}, ${pinned === null ? "the largest" : "pinned"}`;
      if (found) words.push(`level ${number}: ${order.slice(0, 3).map((idr) => `IDR ${idr} ${percent(found[idr])}`).join(", ")}`);
    });
    const verb = state.kind === "partition" ? "belongs to" : "reads";
    const rest = state.pinned ? describe(...state.pinned) : hint;
    byId("belongs").textContent = words.length ? `Pixel ${scene.pixel(cursor).join(", ")} ${verb}: ${words.join("; ")}.` : rest;
  }

  function length(unscaled) {
    const metres = unscaled * scene.state.scale;
    if (metres < 0.01) return `${(1000 * metres).toFixed(1)}\u202fmm`;
    return metres < 0.1 ? `${(100 * metres).toFixed(1)}\u202fcm` : scene.metres(unscaled);
  }

  function percent(share) {
    return `${Math.round(100 * share)}\u202f%`;
  }

  function describe(number, idr) {
    const level = levels[number];
    return `${idrName(number, idr)} dominates in ${percent(level.dominant[idr])} of the pixels${isMuted(number, idr) ? "; muted" : ""}.`;
  }

  function isMuted(number, idr) {
    return state.muted.get(number)?.has(idr) ?? false;
  }

  function showPinned() {
    const [number, idr] = hovered ?? state.pinned ?? [0, null];
    dim(byId("explored").querySelector(".dim"), levels[number], idr);
    byId("explored-title").textContent = idr === null ? "Picture" : `${idrName(number, idr)}${hovered ? "" : ", pinned"}`;
    byId("mute").hidden = byId("unpin").hidden = !state.pinned;
    if (state.pinned) byId("mute").textContent = isMuted(...state.pinned) ? "Unmute" : "Mute";
    byId("unmute").hidden = !state.muted.size;
    for (const level of levels) {
      for (const button of level.buttons) {
        const [at, which] = [Number(button.dataset.level), Number(button.dataset.idr)];
        button.setAttribute("aria-pressed", String(state.pinned?.[0] === at && state.pinned[1] === which));
        button.classList.toggle("muted", isMuted(at, which));
        button.setAttribute("aria-label", describe(at, which));
      }
    }
    point(scene.state);
  }

  function showsChange() {
    return root.querySelector("[name=effect]:checked").value === "change";
  }

  /** Returns depth without the muted IDRs at a pixel, or its change, as text. */
  function effectAt(index) {
    const value = (effect?.depth ?? whole)[index];
    const change = effect?.change[index] ?? 0;
    return showsChange() ? `${change < 0 ? "\u2212" : "+"}${length(Math.abs(change))}` : scene.metres(value);
  }

  function showEffect() {
    const change = showsChange();
    const canvas = byId("without").querySelector("canvas");
    const { mean_m: mean, largest_m: largest } = effect ?? { mean_m: 0, largest_m: 0 };
    if (change) {
      const end = Math.max(largest, 0.001);
      scene.draw(canvas, effect?.change ?? whole.map(() => 0), table, [-end, end]);
    } else scene.draw(canvas, effect?.depth ?? whole);
    const count = [...applied.values()].reduce((sum, idrs) => sum + idrs.size, 0);
    const scale = change && count ? `; orange is farther, purple is nearer, full colour at ${length(Math.max(largest, 0.001))}` : "";
    byId("effect-note").textContent = count
      ? `${count} muted: depth changes by ${length(mean)} on average, at 99\u202f% of the pixels by up to ${length(largest)}${scale}`
      : "nothing is muted";
  }

  // Actions

  function pin(number, idr) {
    state.pinned = [number, idr];
    showPinned();
  }

  function unpin() {
    state.pinned = null;
    showPinned();
  }

  function toggle(number, idr) {
    const idrs = new Set(state.muted.get(number));
    if (!idrs.delete(idr)) idrs.add(idr);
    const muted = new Map(state.muted).set(number, idrs);
    if (!idrs.size) muted.delete(number);
    setMuted(muted);
  }

  /** Mutes these IDRs only. The last response is shown; an error restores the previous state. */
  async function setMuted(muted) {
    const number = ++lastRequest;
    state.muted = muted;
    showPinned();
    byId("effect-note").textContent = "computing";
    try {
      const idrs = Object.fromEntries([...muted].map(([level, numbers]) => [level, [...numbers]]));
      const answer = muted.size ? await mute(idrs) : null;
      const unpacked = answer && {
        ...answer,
        depth: await scene.unpackedDepth(answer.depth),
        change: (await scene.unpackedDepth(answer.change)).map((value) => value + answer.change_from_m),
      };
      if (number === lastRequest) [effect, applied] = [unpacked, muted];
    } catch (error) {
      if (number !== lastRequest) return;
      state.muted = applied;
      showError(error);
      showPinned();
    }
    if (number === lastRequest) showEffect();
  }

  function wire() {
    byId("mute").addEventListener("click", () => toggle(...state.pinned));
    byId("unpin").addEventListener("click", unpin);
    byId("unmute").addEventListener("click", () => setMuted(new Map()));
    for (const choice of root.querySelectorAll("[name=effect]")) choice.addEventListener("change", showEffect);
    for (const choice of root.querySelectorAll("[name=kind]")) {
      choice.checked = choice.value === state.kind;
      choice.addEventListener("change", () => {
        state.kind = choice.value;
        for (const level of levels) level.buttons.forEach((button, idr) => thumbnail(button.firstChild, level, idr));
        showPinned();
      });
    }
  }
}
