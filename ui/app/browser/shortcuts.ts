import { createSignal, onCleanup } from "solid-js";
import { readStoredText, storeText } from "./stored-text.ts";

/** A key of a page and its action. */
export interface Shortcut {
  /** As `KeyboardEvent.key` names it. */
  key: string;
  label: string;
  /** Absent where the browser acts by itself, and only the help lists the key. */
  run?: () => void;
  /** Works in an open dialog too. */
  inDialog?: boolean;
}

/** The key that opens chat, on every page. */
export const askKey = "a";

/** The facts of a key press that decide. */
export interface KeyPress {
  key: string;
  /** Control, Alt or Meta is down: the press belongs to the browser or the system. */
  modified: boolean;
  /** Another listener has handled it, or an input method composes a character. */
  handled: boolean;
  /** The focus is in a field that takes text or a choice. */
  inField: boolean;
  inDialog: boolean;
}

/** Returns the shortcut of a key press, if it has one. */
export const shortcutOf = (
  press: KeyPress,
  shortcuts: readonly Shortcut[],
): Shortcut | undefined => {
  if (press.modified || press.handled || press.inField) return undefined;
  return shortcuts.find(
    ({ key, run, inDialog }) =>
      key === press.key && run !== undefined && (inDialog || !press.inDialog),
  );
};

/** Shift is not a modifier here: some keyboards need it for `/` and `?`. */
const keyPressOf = (event: KeyboardEvent): KeyPress => {
  const target = event.target instanceof Element ? event.target : null;
  return {
    key: event.key,
    modified: event.ctrlKey || event.altKey || event.metaKey,
    handled: event.defaultPrevented || event.isComposing,
    inField: target?.closest("input, textarea, select, [contenteditable]") != null,
    inDialog: target?.closest("dialog") != null,
  };
};

const storageKey = "shortcuts";

/** Whether shortcuts are on: stored in this browser, on by default. */
export type ShortcutSwitch = ReturnType<typeof createShortcutSwitch>;

/** Returns the switch of single-key shortcuts, which can be turned off (WCAG 2.1.4). Create one for a page. */
export const createShortcutSwitch = () => {
  const [on, setOn] = createSignal(readStoredText(storageKey) !== "off");
  return {
    on,
    turn(next: boolean): void {
      setOn(next);
      storeText(storageKey, next ? "on" : "off");
    },
  };
};

/** Listens for shortcuts until the caller is disposed, while the switch is on. */
export const createShortcuts = (shortcuts: readonly Shortcut[], { on }: ShortcutSwitch): void => {
  const listen = (event: KeyboardEvent) => {
    const shortcut = on() ? shortcutOf(keyPressOf(event), shortcuts) : undefined;
    if (shortcut === undefined) return;
    // Keeps the key out of a field that the shortcut focuses.
    event.preventDefault();
    shortcut.run?.();
  };
  document.addEventListener("keydown", listen);
  onCleanup(() => document.removeEventListener("keydown", listen));
};
