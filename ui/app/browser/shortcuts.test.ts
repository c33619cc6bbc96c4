import { expect, it } from "vitest";
import { type KeyPress, type Shortcut, shortcutOf } from "./shortcuts.ts";

const search = { key: "/", label: "Search", run: () => {} };
const next = { key: "j", label: "Next row", run: () => {}, inDialog: true };
const shortcuts = [search, next, { key: "Enter", label: "Open the row" }];
const press = (change: Partial<KeyPress>) => ({
  key: "/",
  modified: false,
  handled: false,
  inField: false,
  inDialog: false,
  ...change,
});

it.each<[string, Partial<KeyPress>, Shortcut | undefined]>([
  ["runs its shortcut", {}, search],
  ["of another key runs none", { key: "x" }, undefined],
  ["of a capital letter runs none", { key: "J" }, undefined],
  ["with a modifier belongs to the browser", { modified: true }, undefined],
  ["in a field is typed", { inField: true }, undefined],
  ["that another listener handled runs none", { handled: true }, undefined],
  ["that the browser handles is left to it", { key: "Enter" }, undefined],
  ["in a dialog does not reach the page behind it", { inDialog: true }, undefined],
  ["in a dialog runs a shortcut of dialogs", { key: "j", inDialog: true }, next],
  ["in a field of a dialog is typed", { key: "j", inDialog: true, inField: true }, undefined],
])("a key press %s", (_name, change, expected) =>
  expect(shortcutOf(press(change), shortcuts)).toBe(expected),
);
