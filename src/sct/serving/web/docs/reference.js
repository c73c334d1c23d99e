// Reference of the HTTP API, rendered from openapi.json.

import { h, render } from "../view/elements.js";

/** Replace a reference to a schema by the schema. */
export function resolve(schema, openapi) {
  return schema.$ref ? openapi.components.schemas[schema.$ref.split("/").at(-1)] : schema;
}

/** Type and bounds of a schema in a few words, such as "array of 1 to 10 string". */
export function typeText(schema, openapi) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map((each) => typeText(each, openapi)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.type === "array") {
    const count = bounds(schema.minItems, schema.maxItems);
    return `array of ${count ? `${count} ` : ""}${typeText(schema.items ?? {}, openapi)}`;
  }
  const type = schema.format ?? schema.type ?? "any";
  const range = bounds(schema.minimum, schema.maximum);
  const length = bounds(schema.minLength, schema.maxLength);
  return [type, range, length && `${length} characters`, schema.pattern].filter(Boolean).join(", ");
}

function bounds(low, high) {
  if (low === undefined && high === undefined) return "";
  if (low === undefined) return `at most ${high}`;
  if (high === undefined) return `at least ${low}`;
  return low === high ? String(low) : `${low} to ${high}`;
}

function fieldTable(schema, openapi) {
  const required = schema.required ?? [];
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, name)),
      h("td", {}, typeText(field, openapi)),
      h("td", {}, required.includes(name) ? "required" : JSON.stringify(field.default)),
      h("td", {}, field.description ?? ""),
    ),
  );
  const head = ["field", "type", "default", "meaning"].map((title) => h("th", { scope: "col" }, title));
  const table = h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
  return rows.length > 0 && h("div", { class: "scroll" }, table);
}

function bodyView([type, body], openapi) {
  const schema = resolve(body.schema, openapi);
  const inner = schema.properties?.request;
  return [
    h("h3", {}, `Request: ${type}`),
    fieldTable(schema, openapi),
    inner && h("p", { class: "note" }, "Fields of request:"),
    inner && fieldTable(resolve(inner, openapi), openapi),
    exampleView(body.example),
  ];
}

function exampleView(example) {
  if (example === undefined) return null;
  const lists = /\[[^[\]{}]*\]/g; // lists of plain values, which fit on a line
  const json = () => JSON.stringify(example, null, 1).replace(lists, (list) => list.replace(/\s+/g, " "));
  return h("pre", { tabindex: "0" }, typeof example === "string" ? example : json());
}

function operationView(path, method, operation, openapi) {
  const responses = Object.entries(operation.responses);
  const success = operation.responses["200"].content ?? {};
  const errors = responses
    .filter(([status]) => status !== "200")
    .map(([status, { description }]) =>
      h("tr", {}, h("th", { scope: "row" }, status), h("td", {}, description ?? "")),
    );
  return h(
    "section",
    {},
    h("h2", {}, h("code", {}, `${method.toUpperCase()} ${path}`)),
    h("p", { class: "summary" }, operation.summary ?? ""),
    h("p", {}, operation.description ?? ""),
    ...Object.entries(operation.requestBody?.content ?? {}).flatMap((entry) => bodyView(entry, openapi)),
    h("h3", {}, "Response"),
    ...Object.values(success).map(({ example }) => exampleView(example)),
    errors.length > 0 && h("h3", {}, "Errors"),
    errors.length > 0 && h("table", {}, h("tbody", {}, ...errors)),
  );
}

function referenceView(openapi) {
  const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationView(path, method, operation, openapi)),
  );
  return [
    h("h1", {}, `HTTP API, version ${openapi.info.version}`),
    h("p", { class: "summary" }, openapi.info.summary ?? ""),
    h("p", {}, "Schemas of requests and responses: ", h("a", { href: "openapi.json" }, "openapi.json"), "."),
    openapi.security &&
      h("p", {}, "Requests need the header ", h("code", {}, "Authorization: Bearer TOKEN"), ", except health."),
    ...operations,
  ].filter(Boolean);
}

const root = document.getElementById("reference");
if (root) {
  const response = await fetch("openapi.json");
  render(root, response.ok ? referenceView(await response.json()) : h("p", {}, "openapi.json could not be loaded."));
}
