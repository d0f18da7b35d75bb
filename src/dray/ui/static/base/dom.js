/**
 * Builds elements. Text is inserted as text, never as HTML, and links lead only to places of this page.
 */

/** @typedef {Node | string | number | null | undefined | false} Leaf */
/** @typedef {Leaf | Leaf[]} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes | null} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes, ...children) {
  return filled(/** @type {SVGElementTagNameMap[T]} */ (document.createElementNS(SVG, tag)), attributes, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes | null | undefined} attributes
 * @param {Child[]} children
 * @returns {E}
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    set(element, name, value);
  }
  element.append(...leaves(children));
  return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {Attributes[string]} value
 */
export function set(element, name, value) {
  if (typeof value === "function") {
    element.addEventListener(name.replace(/^on/, ""), value);
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else if (name === "href" && !/^(#|blob:)/.test(String(value))) {
    throw new TypeError(`a link may not lead to ${value}`);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function leaves(children) {
  /** @type {(Node | string)[]} */
  const found = [];
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      found.push(child instanceof Node ? child : String(child));
    }
  }
  return found;
}

/**
 * Replaces what an element contains.
 *
 * @template {Element} E
 * @param {E} element
 * @param {...Child} children
 * @returns {E}
 */
export function fill(element, ...children) {
  element.replaceChildren(...leaves(children));
  return element;
}

/**
 * Makes a button.
 *
 * @param {string} text
 * @param {() => void} pressed
 * @param {Attributes} [attributes]
 */
export function button(text, pressed, attributes) {
  return h("button", { type: "button", onclick: pressed, ...attributes }, text);
}

/**
 * Makes a label with its field.
 *
 * @param {string} text
 * @param {HTMLElement} field
 */
export function labelled(text, field) {
  return h("label", { class: "field" }, h("span", null, text), field);
}

/**
 * Makes a list to choose from.
 *
 * @param {[value: string, text: string][]} options
 * @param {string} chosen
 * @param {(value: string) => void} changed
 */
export function choice(options, chosen, changed) {
  const field = h("select", { onchange: () => changed(field.value) });
  offer(field, options, chosen);
  return field;
}

/**
 * Replaces what a list offers; a value that is not among it is offered too.
 *
 * @param {HTMLSelectElement} field
 * @param {[value: string, text: string][]} options
 * @param {string} chosen
 */
export function offer(field, options, chosen) {
  const all = options.some(([value]) => value === chosen) ? options : [...options, /** @type {[string, string]} */ ([chosen, chosen])];
  const wanted = JSON.stringify(all);
  if (field.dataset.offered !== wanted) {
    field.dataset.offered = wanted;
    fill(field, all.map(([value, text]) => h("option", { value }, text)));
  }
  field.value = chosen;
}

/**
 * Makes a table whose rows are arrays of children; it scrolls by itself where it is wider than the page.
 *
 * @param {string} caption
 * @param {string[]} columns those that begin with > are numbers
 * @param {Child[][]} rows
 */
export function table(caption, columns, rows) {
  const numeric = columns.map((column) => column.startsWith(">"));
  return h(
    "div",
    { class: "table", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, columns.map((column, at) => h("th", { scope: "col", class: numeric[at] && "number" }, column.replace(/^>/, ""))))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((child, at) => h("td", { class: numeric[at] && "number" }, child))))),
    ),
  );
}

/**
 * The parts of a sentence; what it has in backticks is shown as code.
 *
 * @param {string} text
 * @returns {Leaf[]}
 */
export function sentence(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? h("code", null, part) : part)) : [text];
}

/**
 * Calls a function once after a pause without further calls.
 *
 * @template {unknown[]} A
 * @param {(...values: A) => void} call
 * @param {number} milliseconds
 */
export function settled(call, milliseconds) {
  let timer = 0;
  return (/** @type {A} */ ...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), milliseconds);
  };
}

/**
 * Calls a function at most once in a period: at its end, however often it was asked for.
 *
 * @param {() => void} call
 * @param {number} milliseconds
 */
export function throttled(call, milliseconds) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      call();
    }, milliseconds);
  };
}
