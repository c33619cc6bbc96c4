import { type Accessor, createSignal, onCleanup } from "solid-js";
import { readStored, storeText } from "../storage/browser-storage.ts";
import { keyPressOf, type Shortcut, shortcutOf } from "./shortcuts.ts";

const storageKey = "shortcuts";

/** Whether shortcuts are on: a person's choice for this browser, on unless told. */
export interface ShortcutSwitch {
  on: Accessor<boolean>;
  turn(on: boolean): void;
}

/** Listens for these shortcuts as long as the caller lives. Single keys can be turned off, as WCAG 2.1.4 wants it. */
export const createShortcuts = (shortcuts: readonly Shortcut[]): ShortcutSwitch => {
  const [on, setOn] = createSignal(readStored(storageKey) !== "off");
  const listen = (event: KeyboardEvent) => {
    const shortcut = on() ? shortcutOf(keyPressOf(event), shortcuts) : undefined;
    if (shortcut === undefined) return;
    // The key itself must not be typed into the field that a shortcut focuses.
    event.preventDefault();
    shortcut.run?.();
  };
  document.addEventListener("keydown", listen);
  onCleanup(() => document.removeEventListener("keydown", listen));
  return {
    on,
    turn(next) {
      setOn(next);
      storeText(storageKey, next ? "on" : "off");
    },
  };
};
