import { describe, expect, it } from "vitest";
import { type KeyPress, type Shortcut, shortcutOf } from "./shortcuts.ts";

const search: Shortcut = { key: "/", meaning: "Search", run: () => {} };
const next: Shortcut = { key: "j", meaning: "Next row", run: () => {}, inDialog: true };
const shortcuts = [search, next, { key: "Enter", meaning: "Open the row" }];
const press = (change: Partial<KeyPress>): KeyPress => ({
  key: "/",
  modified: false,
  taken: false,
  inField: false,
  inDialog: false,
  ...change,
});

describe("a key press", () => {
  it.each<[string, Partial<KeyPress>, Shortcut | undefined]>([
    ["means its shortcut", {}, search],
    ["of another key means nothing", { key: "x" }, undefined],
    ["in capitals means nothing", { key: "J" }, undefined],
    ["with a modifier is the browser's", { modified: true }, undefined],
    ["in a field is typed", { inField: true }, undefined],
    ["that somebody took is theirs", { taken: true }, undefined],
    ["that the browser answers is left to it", { key: "Enter" }, undefined],
    ["in a dialog does not reach behind it", { inDialog: true }, undefined],
    ["in a dialog reaches what is meant for it", { key: "j", inDialog: true }, next],
    ["in a field of a dialog is typed", { key: "j", inDialog: true, inField: true }, undefined],
  ])("%s", (_name, change, expected) => expect(shortcutOf(press(change), shortcuts)).toBe(expected));
});
