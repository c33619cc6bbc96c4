/** What a key does on a page. */
export interface Shortcut {
  /** As `KeyboardEvent.key` gives it. */
  key: string;
  meaning: string;
  /** Absent for what the browser does by itself, and is told in the help only. */
  run?: () => void;
  /** Also while a dialog is open. */
  inDialog?: boolean;
}

/** What a key press was, as far as it decides. */
export interface KeyPress {
  key: string;
  /** Control, Alt or Meta is held: then it is the browser's or the system's. */
  modified: boolean;
  /** Something else has taken it, or an input method composes a character. */
  taken: boolean;
  /** It goes to a field that takes text or a choice. */
  inField: boolean;
  inDialog: boolean;
}

/** The shortcut that a key press means; undefined for all that is somebody else's. */
export const shortcutOf = (press: KeyPress, shortcuts: readonly Shortcut[]): Shortcut | undefined => {
  if (press.modified || press.taken || press.inField) return undefined;
  return shortcuts.find(
    ({ key, run, inDialog }) => key === press.key && run !== undefined && (inDialog || !press.inDialog),
  );
};

/** The key press of an event. Shift is no modifier: some keyboards need it for `/` and `?`. */
export const keyPressOf = (event: KeyboardEvent): KeyPress => {
  const target = event.target instanceof Element ? event.target : null;
  return {
    key: event.key,
    modified: event.ctrlKey || event.altKey || event.metaKey,
    taken: event.defaultPrevented || event.isComposing,
    inField: target?.closest("input, textarea, select, [contenteditable]") != null,
    inDialog: target?.closest("dialog, [role=dialog]") != null,
  };
};
