import { expect, it } from "vitest";
import { createPageTrail as createTrail, type TrailStore } from "./page-trail.ts";

const createStore = (text: string | null = null): TrailStore => ({
  read: () => text,
  write: (next) => {
    text = next;
  },
});
const createPageTrail = (store = createStore()) => createTrail("/fleet", store);

it("knows the pages of its list after a reload, and of no other", () => {
  const store = createStore();
  const trail = createPageTrail(store);
  trail.record(undefined, "b");
  trail.record("b", "c");
  const reloaded = createPageTrail(store);
  expect([reloaded.numberOf("c"), reloaded.before("c")]).toEqual([3, "b"]);
  expect(createTrail("/fleet?q=db", store).numberOf("c")).toBeUndefined();
});

it("knows only the first page when what is stored is not a trail", () => {
  for (const text of ["", "{}", '{"list":"/fleet","pages":[["b","c"],["c","b"]]}'])
    expect(createPageTrail(createStore(text)).numberOf("b")).toBeUndefined();
});

it("numbers the pages that it has seen, and returns the page before each", () => {
  const trail = createPageTrail();
  expect(trail.numberOf(undefined)).toBe(1);
  trail.record(undefined, "b");
  trail.record("b", "c");
  trail.record("c", null);
  expect([trail.numberOf("b"), trail.numberOf("c")]).toEqual([2, 3]);
  expect([trail.before("c"), trail.before("b"), trail.before(undefined)]).toEqual([
    "b",
    undefined,
    undefined,
  ]);
});

it("has no number for a page that was reached by a link", () => {
  const trail = createPageTrail();
  trail.record("x", "y");
  expect([trail.numberOf("x"), trail.numberOf("y"), trail.before("x")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(trail.before("y")).toBe("x");
});
