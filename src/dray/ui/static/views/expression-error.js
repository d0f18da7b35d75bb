/**
 * Shows what is wrong with a CEL expression, and where.
 */
import { button, h } from "../base/dom.js";

/**
 * @param {string} expression
 * @param {import("../model/server.js").ServerError} error
 * @param {(expression: string) => void} use
 */
export function expressionError(expression, error, use) {
  const { line, column, suggestion } = error.details;
  const text = typeof line === "number" ? expression.split("\n")[line - 1] : expression;
  return h(
    "div",
    { role: "alert" },
    typeof column === "number" && text !== undefined && h("pre", { class: "caret" }, `${text}\n${" ".repeat(Math.max(0, Math.min(column - 1, text.length)))}^`),
    h("p", { class: "problem" }, error.message),
    error.advice && h("p", { class: "quiet" }, error.advice),
    typeof suggestion === "string" &&
      suggestion !== "" &&
      h("p", null, "Did you mean ", h("code", null, suggestion), "? ", button("Use it", () => use(suggestion), { class: "small" })),
  );
}
