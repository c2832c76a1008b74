// The depth viewer: picture and depth with metres under the cursor, an orbiting point cloud, and the
// distance between two marked pixels. `viewer.open(root, data)` brings the markup inside `root` to life
// with a scene of `formats.viewer.scene`; a page that has one inside opens it by itself. Nothing is loaded.
"use strict";
globalThis.viewer = { async open(root, data) {
  const byId = (id) => root.querySelector(`#${id}`);
  const [rows, columns] = data.grid;
  const [fx, fy, cx, cy] = data.camera;
  const [low, high] = data.limits;
  const depth = await unpackedDepth(data); // by pixel; 0 = none
  const isEdge = new Uint8Array(await unpacked(data.edges));
  const colours = bytes(data.colours); // 256 RGB
  const state = { cursor: -1, marks: [], scale: 1 }; // indices into the grid; factor of all distances
  const watchers = []; // called with the state whenever it changes
  const closing = new AbortController();
  const hint = byId("reading").textContent;
  makeFrames();
  drawTicks();
  const cloud = makeCloud(byId("stage"));
  const views = [makeView(byId("picture")), makeView(byId("depth"))];
  for (const canvas of root.querySelectorAll("#picture canvas, #depth canvas")) draw(canvas, depth);
  byId("blend").addEventListener("input", (event) => {
    byId("picture").querySelector(".over").style.opacity = event.target.value / 100;
  });
  byId("clear").addEventListener("click", () => { state.marks = []; show(); });
  show();
  return {
    state, rows, columns, bytes, draw, metres, show, unpackedDepth, hasCloud: Boolean(cloud),
    addView: (element, chosen, told) => { views.push(makeView(element, chosen, told)); show(); },
    watch: (watcher) => { watchers.push(watcher); watcher(state); },
    between: () => state.marks.length === 2 ? distance(...state.marks) * state.scale : null,
    rescale: (factor) => { state.scale = factor; drawTicks(); show(); },
    pixel,
    close: () => { closing.abort(); cloud?.close(); },
  };

  // Data

  /** Column and row in the picture of an index into the grid. */
  function pixel(index) {
    return [index % columns, Math.floor(index / columns)].map((value) => data.first + data.step * value);
  }

  function bytes(text) {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  }

  function unpacked(text) {
    const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  async function unpackedDepth(packed) {
    const steps = new DataView(await unpacked(packed.depth));
    const metres = new Float32Array(rows * columns);
    for (let row = 0, index = 0; row < rows; row++) {
      for (let column = 0, value = 0; column < columns; column++, index++) {
        value = (value + steps.getUint16(2 * index, true)) & 0xffff; // differences along a row
        metres[index] = value * packed.metres_per_unit;
      }
    }
    return metres;
  }

  /** The point of a pixel, in metres: x right, y up, z back. */
  function point(index) {
    const z = depth[index];
    return [((index % columns) - cx) / fx * z, -(Math.floor(index / columns) - cy) / fy * z, -z];
  }

  function distance(one, other) {
    return Math.hypot(...point(one).map((value, axis) => value - point(other)[axis]));
  }

  /** A distance of the scene as text, rescaled. */
  function metres(unscaled) {
    const value = unscaled * state.scale;
    if (data.unit === "relative") return `${Number(value.toPrecision(3))} relative`;
    return `${value.toFixed(value < 10 ? 2 : 1)}\u202fm`;
  }

  function shade(value, [first, last]) {
    return 3 * Math.min(255, Math.max(0, Math.floor((value - first) / (last - first) * 256)));
  }

  function whenResized(element, act) {
    const observer = new ResizeObserver(act);
    observer.observe(element);
    closing.signal.addEventListener("abort", () => observer.disconnect());
  }

  // What all views show

  function show() {
    const { cursor, marks } = state;
    for (const view of views) view.show();
    cloud?.ask();
    const needle = byId("needle");
    needle.hidden = cursor < 0 || !depth[cursor];
    if (!needle.hidden) {
      const share = (depth[cursor] - low) / (high - low);
      needle.style.left = `${100 * Math.min(1, Math.max(0, share))}%`;
    }
    const parts = [];
    if (cursor >= 0) {
      const place = pixel(cursor).join(", ");
      parts.push(depth[cursor]
        ? `Pixel ${place}: depth ${metres(depth[cursor])}, ${metres(Math.hypot(...point(cursor)))} from the camera.`
        : `Pixel ${place}: no depth.`);
    }
    if (marks.length === 1) parts.push("One mark set; click a second point.");
    if (marks.length === 2) parts.push(`Between the marks: ${metres(distance(...marks))}.`);
    byId("reading").textContent = parts.join(" ") || hint;
    byId("clear").hidden = !marks.length;
    for (const watcher of watchers) watcher(state);
  }

  function mark(index) {
    if (index < 0 || !depth[index]) return;
    state.marks = state.marks.length === 2 ? [index] : [...state.marks, index];
    show();
  }

  /**
   * Marks, the line between them and the cursor, over an element; `place` gives pixels of it. With `told`,
   * what to say of a pixel, there are no marks.
   */
  function makeOverlay(element, place, told = null) {
    const svg = element.querySelector(".marks");
    const tags = { cursor: document.createElement("div"), length: document.createElement("div") };
    tags.cursor.className = "tag";
    tags.length.className = "tag length";
    element.append(tags.length, tags.cursor);
    const put = (tag, text, x, y) => {
      tag.hidden = !text;
      if (!text) return;
      tag.textContent = text;
      const left = x + 14 + tag.offsetWidth > element.clientWidth ? x - 14 - tag.offsetWidth : x + 14;
      const top = Math.min(Math.max(y - tag.offsetHeight - 8, 4), element.clientHeight - tag.offsetHeight - 4);
      tag.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
    };
    const shape = (name, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      svg.append(made);
    };
    return () => {
      svg.replaceChildren();
      const ends = told ? [] : state.marks.map(place).filter((end) => end && end.every(Number.isFinite));
      if (ends.length === 2) {
        const [[x1, y1], [x2, y2]] = ends;
        shape("line", { x1, y1, x2, y2 });
        put(tags.length, metres(distance(...state.marks)), (x1 + x2) / 2, (y1 + y2) / 2);
      } else put(tags.length, "");
      for (const [x, y] of ends) shape("circle", { cx: x, cy: y, r: 6 });
      const here = state.cursor >= 0 && place(state.cursor);
      if (here) {
        shape("circle", { class: "cross", cx: here[0], cy: here[1], r: 5 });
        const reading = () => (depth[state.cursor] ? metres(depth[state.cursor]) : "no depth");
        put(tags.cursor, told ? told(state.cursor) : reading(), ...here);
      } else put(tags.cursor, "");
    };
  }

  // Picture and depth

  /** Shapes and legend, which depend on the picture. */
  function makeFrames() {
    const [height, width] = data.size;
    for (const frames of root.querySelectorAll(".views")) {
      frames.style.setProperty("--width", width);
      frames.style.setProperty("--height", height);
      frames.classList.toggle("wide", width > 2 * height);
    }
    const stops = Array.from({ length: 17 }, (_, step) => `rgb(${colours.subarray(3 * Math.round(step * 255 / 16)).slice(0, 3).join(" ")})`);
    root.querySelector(".bar").style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  }

  /** Round numbers below the legend: those of the scene, or others once it is rescaled. */
  function drawTicks() {
    const marks = state.scale === 1 ? data.ticks : roundNumbers(low * state.scale, high * state.scale);
    root.querySelector(".ticks").replaceChildren(...marks.map(([value, text]) => {
      const tick = document.createElement("span");
      tick.style.left = `${100 * (value / state.scale - low) / (high - low)}%`;
      tick.textContent = data.unit === "relative" ? text : `${text}\u202fm`;
      return tick;
    }));
  }

  /** About five multiples of 1, 2 or 5 times a power of ten, each with its text. */
  function roundNumbers(first, last) {
    const rough = (last - first) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power)
      .reduce((best, each) => (Math.abs(each - rough) < Math.abs(best - rough) ? each : best));
    const numbers = [];
    for (let count = Math.ceil(first / step - 1e-9); count * step <= last * (1 + 1e-9); count++) numbers.push(count * step);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return numbers.map((value) => [value, value.toFixed(decimals)]);
  }

  /** Metres by pixel in colours; `table` and `ends` are those of depth unless others are given. */
  function draw(canvas, values, table = colours, ends = [low, high]) {
    const picture = new ImageData(columns, rows);
    for (let index = 0; index < values.length; index++) {
      const there = table !== colours || values[index];
      const source = there ? table.subarray(shade(values[index], ends)) : data.empty;
      for (let channel = 0; channel < 3; channel++) picture.data[4 * index + channel] = source[channel];
      picture.data[4 * index + 3] = 255;
    }
    [canvas.width, canvas.height] = [columns, rows];
    canvas.getContext("2d").putImageData(picture, 0, 0);
  }

  /** A picture under the cursor; `chosen` is called with the pixel of a click, which is marked otherwise. */
  function makeView(element, chosen = mark, told = null) {
    const [height, width] = data.size;
    const place = (index) => [
      (data.first + data.step * (index % columns) + 0.5) / width * element.clientWidth,
      (data.first + data.step * Math.floor(index / columns) + 0.5) / height * element.clientHeight,
    ];
    const nearest = (share, length, count) => // the grid's pixel at a share of the picture's side
      Math.min(count - 1, Math.max(0, Math.round((share * length - 0.5 - data.first) / data.step)));
    const under = (event) => {
      const box = element.getBoundingClientRect();
      const column = nearest((event.clientX - box.left) / box.width, width, columns);
      return nearest((event.clientY - box.top) / box.height, height, rows) * columns + column;
    };
    // A tap's reading stays: if it went when the finger is elsewhere, what is below would move away from it
    let tapped = false;
    const read = (event) => {
      tapped = event.pointerType === "touch";
      state.cursor = under(event);
      show();
    };
    const leave = () => {
      if (tapped) return;
      state.cursor = -1;
      show();
    };
    element.addEventListener("pointermove", read);
    element.addEventListener("pointerdown", read);
    element.addEventListener("pointerleave", leave);
    element.addEventListener("click", (event) => chosen(under(event)));
    element.addEventListener("keydown", (event) => {
      const jump = event.shiftKey ? 10 : 1;
      const moves = { ArrowLeft: [-jump, 0], ArrowRight: [jump, 0], ArrowUp: [0, -jump], ArrowDown: [0, jump] };
      const at = state.cursor < 0 ? Math.floor(rows / 2) * columns + Math.floor(columns / 2) : state.cursor;
      if (event.key in moves) {
        const [right, down] = state.cursor < 0 ? [0, 0] : moves[event.key];
        const column = Math.min(columns - 1, Math.max(0, (at % columns) + right));
        state.cursor = Math.min(rows - 1, Math.max(0, Math.floor(at / columns) + down)) * columns + column;
      } else if (event.key === "Enter" || event.key === " ") chosen(at);
      else if (event.key === "Escape") Object.assign(state, { cursor: -1, marks: [] });
      else return;
      event.preventDefault();
      show();
    });
    element.addEventListener("blur", leave);
    const overlay = makeOverlay(element, place, told);
    whenResized(element, overlay);
    return { show: overlay };
  }

  // The cloud

  /** How far it is to the next pixel on the same surface, in metres: one to four times a pixel's width. */
  function reach(index) {
    const pixel = depth[index] / Math.min(fx, fy);
    let far = pixel;
    for (const next of [(index + 1) % columns ? index + 1 : index, index + columns]) {
      if (depth[next]) far = Math.max(far, Math.abs(depth[next] - depth[index]));
    }
    return Math.min(far, 4 * pixel);
  }

  /** Steps of inverse depth for each pixel, along a row (`jump` 1) or a column, over `reach` pixels. */
  function slope(index, jump, reach) {
    const place = jump === 1 ? index % columns : Math.floor(index / columns);
    const back = Math.min(reach, place);
    const ahead = Math.min(reach, (jump === 1 ? columns : rows) - 1 - place);
    const [before, after] = [depth[index - back * jump], depth[index + ahead * jump]];
    return before && after && back + ahead ? (1 / after - 1 / before) / (back + ahead) : NaN;
  }

  /** Which way its surface looks: to the camera, by construction; x right, y up, z back. */
  function facing(index) {
    const [right, down] = [slope(index, 1, 3) || 0, slope(index, columns, 3) || 0];
    const [x, y] = [(index % columns) - cx, Math.floor(index / columns) - cy];
    const normal = [-fx * right, fy * down, 1 / depth[index] - x * right - y * down];
    const length = Math.hypot(...normal);
    return normal.map((value) => value / length);
  }

  function makePoints(indices) {
    const position = new Float32Array(3 * indices.length);
    const corner = new Float32Array(2 * indices.length);
    const broken = new Float32Array(indices.length);
    const wide = new Float32Array(indices.length);
    const normal = new Float32Array(3 * indices.length);
    indices.forEach((index, number) => {
      position.set(point(index), 3 * number);
      corner[2 * number] = (data.first + data.step * (index % columns) + 0.5) / data.size[1];
      corner[2 * number + 1] = (data.first + data.step * Math.floor(index / columns) + 0.5) / data.size[0];
      broken[number] = isEdge[index];
      normal.set(facing(index), 3 * number);
      wide[number] = reach(index);
    });
    const table = new Uint8Array(1024);
    for (let step = 0; step < 256; step++) {
      table.set([...colours.subarray(3 * step, 3 * step + 3), 255], 4 * step);
    }
    const scale = new THREE.DataTexture(table, 256, 1);
    scale.needsUpdate = true;
    const photo = new THREE.Texture(byId("picture").querySelector("img"));
    photo.flipY = false;
    photo.generateMipmaps = false;
    photo.minFilter = 1006; // linear
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(position, 3));
    geometry.setAttribute("corner", new THREE.BufferAttribute(corner, 2));
    geometry.setAttribute("normal", new THREE.BufferAttribute(normal, 3));
    geometry.setAttribute("wide", new THREE.BufferAttribute(wide, 1));
    geometry.setAttribute("broken", new THREE.BufferAttribute(broken, 1));
    const material = new THREE.ShaderMaterial({
      uniforms: {
        photo: { value: photo }, scale: { value: scale }, byDepth: { value: 0 }, edges: { value: 1 },
        backs: { value: 1 }, size: { value: 1.4 }, focal: { value: 1 }, limits: { value: [low, high] },
      },
      // A point is as large as the way to the next one, so that surfaces close
      vertexShader: `
        attribute vec2 corner; attribute float broken, wide;
        uniform float size, focal, edges, backs;
        varying vec2 place; varying float metres;
        void main() {
          vec4 seen = modelViewMatrix * vec4(position, 1.0);
          place = corner; metres = -position.z;
          gl_Position = projectionMatrix * seen;
          gl_PointSize = clamp(size * wide * focal / -seen.z, 1.0, 60.0);
          bool behind = dot(normal, normalize(cameraPosition - position)) < -0.15;
          if (edges * broken > 0.5 || (backs > 0.5 && behind)) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
        }`,
      fragmentShader: `
        uniform sampler2D photo, scale; uniform float byDepth; uniform vec2 limits;
        varying vec2 place; varying float metres;
        void main() {
          if (length(gl_PointCoord - 0.5) > 0.71 - 0.2 * step(0.5, byDepth)) discard;
          float share = clamp((metres - limits.x) / (limits.y - limits.x), 0.0, 1.0);
          vec3 coloured = texture2D(scale, vec2((share * 255.0 + 0.5) / 256.0, 0.5)).rgb;
          gl_FragColor = vec4(mix(texture2D(photo, place).rgb, coloured, byDepth), 1.0);
        }`,
    });
    byId("picture").querySelector("img").decode().then(() => { photo.needsUpdate = true; cloud?.ask(); });
    return { points: new THREE.Points(geometry, material), uniforms: material.uniforms, position, broken, normal, wide };
  }

  /** Lines from where the camera stood through the corners of its picture. */
  function makeFrame(reach) {
    const corners = [[-0.5, -0.5], [columns - 0.5, -0.5], [columns - 0.5, rows - 0.5], [-0.5, rows - 0.5]]
      .map(([x, y]) => [(x - cx) / fx * reach, -(y - cy) / fy * reach, -reach]);
    const lines = corners.flatMap((corner, number) => [[0, 0, 0], corner, corner, corners[(number + 1) % 4]]);
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(lines.flat()), 3));
    return new THREE.LineSegments(geometry, new THREE.LineBasicMaterial());
  }

  function makeCloud(stage) {
    const indices = [...depth.keys()].filter((index) => depth[index]);
    let renderer;
    try {
      renderer = new THREE.WebGLRenderer({ antialias: true, alpha: true, preserveDrawingBuffer: true });
    } catch {
      byId("failure").hidden = false;
      for (const idle of stage.parentElement.querySelectorAll(".tools, .note")) idle.hidden = true;
      return null;
    }
    renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    stage.prepend(renderer.domElement);
    const { points, uniforms, position, broken, normal, wide } = makePoints(indices);
    const ranges = [0, 1, 2].map((axis) => { // of all but the outermost points: low, median, high
      const sorted = position.filter((_, number) => number % 3 === axis).sort();
      return [0.04, 0.5, 0.96].map((share) => sorted[Math.floor(share * sorted.length)] ?? -axis / 2);
    });
    const middle = ranges.map((range) => range[1]);
    const centre = ranges.map(([first, , last]) => (first + last) / 2);
    const extent = Math.hypot(...ranges.map(([first, , last]) => last - first)) || 1;
    const away = -middle[2];
    const frame = makeFrame(0.12 * away);
    const scene = new THREE.Scene().add(points, frame);
    const camera = new THREE.PerspectiveCamera(50, 1, 0.01 * away, 100 * Math.max(high, away));
    const controls = new THREE.OrbitControls(camera, renderer.domElement);
    Object.assign(controls, { enableDamping: true, dampingFactor: 0.12, enableZoom: false });
    const spot = new THREE.Vector3();
    const place = (index) => {
      spot.set(...point(index)).project(camera);
      return spot.z > 1 ? null : [(spot.x + 1) / 2 * stage.clientWidth, (1 - spot.y) / 2 * stage.clientHeight];
    };
    const overlay = makeOverlay(stage, place);
    let asked = false;
    const ask = () => {
      if (!asked) requestAnimationFrame(draw);
      asked = true;
    };
    const draw = () => {
      asked = false;
      controls.update(); // while it moves, it asks again
      frame.visible = camera.position.length() > 0.6 * away; // nearer, it is in the way
      renderer.render(scene, camera);
      overlay();
    };

    // Where one looks from: angles around a place, degrees, and how far away
    const from = (across, up, far, target) => {
      const turn = new THREE.Spherical(far, Math.PI / 2 - up * Math.PI / 180, across * Math.PI / 180);
      controls.target.set(...target);
      camera.position.setFromSpherical(turn).add(controls.target);
      ask();
    };
    let tangent = 1; // of half the angle of view
    const looks = {
      home: () => from(16, 9, 1.12 * away, middle),
      camera: () => { controls.target.set(0, 0, -away); camera.position.set(0, 0, 0); ask(); },
      side: () => from(68, 14, 0.66 * extent / tangent, centre),
      top: () => from(0, 66, 0.66 * extent / tangent, centre),
    };
    const orbit = (across, up, zoom) => {
      const offset = camera.position.clone().sub(controls.target);
      const turn = new THREE.Spherical().setFromVector3(offset);
      turn.theta += across;
      turn.phi = Math.min(Math.PI - 0.05, Math.max(0.05, turn.phi - up));
      turn.radius *= zoom;
      camera.position.setFromSpherical(turn).add(controls.target);
      ask();
    };
    const resize = () => {
      const { clientWidth: width, clientHeight: height } = stage;
      renderer.setSize(width, height);
      camera.aspect = width / height;
      const half = Math.max(rows / 2 / fy, columns / 2 / fx / camera.aspect); // all of the picture
      camera.fov = 2 * Math.atan(half) * 180 / Math.PI;
      camera.updateProjectionMatrix();
      tangent = 2 * half * Math.min(1, camera.aspect);
      uniforms.focal.value = height * renderer.getPixelRatio() / 2 / half;
      ask();
    };
    const paint = () => {
      frame.material.color.set(getComputedStyle(stage).getPropertyValue("--frame").trim());
      ask();
    };

    const isHidden = (number) => {
      if (uniforms.edges.value && broken[number]) return true;
      if (!uniforms.backs.value) return false;
      const at = [0, 1, 2].map((axis) => position[3 * number + axis]);
      const toEye = camera.position.toArray().map((value, axis) => value - at[axis]);
      const along = toEye.reduce((sum, value, axis) => sum + value * normal[3 * number + axis], 0);
      return along < -0.15 * Math.hypot(...toEye);
    };

    /** The nearest point to the camera among those under the pointer. */
    const under = (event) => {
      const box = stage.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const large = uniforms.size.value * uniforms.focal.value / renderer.getPixelRatio() / 2;
      let [found, best] = [-1, Infinity];
      const view = camera.matrixWorldInverse.clone().premultiply(camera.projectionMatrix).elements;
      for (let number = 0; number < indices.length; number++) {
        const [a, b, c] = [position[3 * number], position[3 * number + 1], position[3 * number + 2]];
        const far = view[3] * a + view[7] * b + view[11] * c + view[15];
        if (far <= 0 || far >= best) continue;
        const across = ((view[0] * a + view[4] * b + view[8] * c + view[12]) / far + 1) / 2 * box.width - x;
        const down = (1 - (view[1] * a + view[5] * b + view[9] * c + view[13]) / far) / 2 * box.height - y;
        const reach = Math.max(4, large * wide[number] / far); // a point's radius on the screen
        if (across * across + down * down < reach * reach && !isHidden(number)) [found, best] = [indices[number], far];
      }
      return found;
    };
    let [pressed, waiting] = [null, null];
    stage.addEventListener("pointerdown", (event) => { pressed = [event.clientX, event.clientY]; controls.enableZoom = true; });
    stage.addEventListener("click", (event) => {
      if (pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 5) return; // a drag
      state.cursor = under(event);
      mark(state.cursor);
    });
    stage.addEventListener("pointermove", (event) => {
      if (!waiting && !event.buttons) {
        requestAnimationFrame(() => { state.cursor = under(waiting); waiting = null; show(); });
      }
      waiting = event.buttons ? waiting : event;
    });
    stage.addEventListener("pointerleave", (event) => {
      controls.enableZoom = document.activeElement === stage || event.pointerType === "touch";
      if (event.pointerType !== "touch") { state.cursor = -1; show(); }
    });
    stage.addEventListener("focus", () => { controls.enableZoom = true; });
    stage.addEventListener("blur", () => { controls.enableZoom = false; });
    stage.addEventListener("keydown", (event) => {
      const moves = {
        ArrowLeft: [-0.08, 0, 1], ArrowRight: [0.08, 0, 1], ArrowUp: [0, 0.08, 1], ArrowDown: [0, -0.08, 1],
        "+": [0, 0, 0.92], "=": [0, 0, 0.92], "-": [0, 0, 1.09],
      };
      if (event.key in moves) orbit(...moves[event.key]);
      else if (event.key === "Home") looks.home();
      else if (event.key === "Escape") { state.marks = []; show(); }
      else return;
      event.preventDefault();
    });
    controls.addEventListener("change", ask);
    for (const button of root.querySelectorAll("[data-view]")) {
      button.addEventListener("click", () => looks[button.dataset.view]());
    }
    for (const choice of root.querySelectorAll("[name=colour]")) {
      choice.addEventListener("change", () => { uniforms.byDepth.value = Number(choice.value); ask(); });
    }
    byId("size").addEventListener("input", (event) => { uniforms.size.value = Number(event.target.value); ask(); });
    for (const id of ["edges", "backs"]) {
      byId(id).addEventListener("change", (event) => { uniforms[id].value = Number(event.target.checked); ask(); });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint, { signal: closing.signal });
    whenResized(stage, resize);
    resize();
    paint();
    looks.home();
    const close = () => {
      controls.dispose();
      renderer.dispose();
      renderer.forceContextLoss();
    };
    return { ask, close };
  }
} };
if (document.getElementById("data")) {
  const data = JSON.parse(document.getElementById("data").textContent);
  viewer.open(document, data).then((scene) => {
    knownDistances.wire(document, scene, data.record);
    document.documentElement.dataset.ready = scene.hasCloud ? "3d" : "2d";
  });
}
