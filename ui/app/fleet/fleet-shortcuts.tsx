import { createSignal, createUniqueId, Show } from "solid-js";
import { askKey, type Shortcut, type ShortcutSwitch } from "../browser/shortcuts.ts";
import { Button } from "../design/buttons.tsx";
import { lazyPart } from "../design/lazy-part.tsx";

const ShortcutList = lazyPart(
  "The help",
  async () => (await import("./shortcut-list.tsx")).ShortcutList,
);

/** The actions behind the keys of `/fleet`. */
interface FleetActions {
  search(): void;
  exports(): void;
  help(): void;
  refresh(): void;
  /** The row whose drawer is open. */
  drawerId(): string | undefined;
  showDrawer(id: string): void;
  /** The shell has the key that opens chat. */
  canAsk: boolean;
}

/** Returns the keys of `/fleet`. `j` and `k` move the focus from row to row, and an open drawer with it. */
export const fleetShortcuts = (actions: FleetActions): Shortcut[] => {
  const step = (by: 1 | -1) => {
    const rows = [...document.querySelectorAll<HTMLElement>("tr[data-id]")];
    const drawerId = actions.drawerId();
    // In another dialog the keys belong to it.
    if (drawerId === undefined && document.activeElement?.closest("dialog")) return;
    const focused = document.activeElement?.closest<HTMLElement>("tr[data-id]")?.dataset.id;
    const current = rows.findIndex(({ dataset }) => dataset.id === (drawerId ?? focused));
    const first = by > 0 ? 0 : rows.length - 1;
    const next = rows[current < 0 ? first : current + by]?.dataset.id;
    if (next === undefined) return;
    const link = rowLink(next);
    if (drawerId === undefined) link?.focus();
    else {
      actions.showDrawer(next);
      link?.scrollIntoView({ block: "nearest" });
    }
  };
  return [
    { key: "/", label: "Search and filter", run: actions.search },
    { key: "j", label: "Next row", run: () => step(1), inDialog: true },
    { key: "k", label: "Previous row", run: () => step(-1), inDialog: true },
    { key: "Enter", label: "Open the row" },
    { key: "Escape", label: "Close what is open" },
    { key: "e", label: "Export", run: actions.exports },
    { key: "r", label: "Refresh", run: actions.refresh },
    ...(actions.canAsk ? [{ key: askKey, label: "Ask about the fleet" }] : []),
    { key: "?", label: "Show this help", run: actions.help },
  ];
};

/** Returns the link of a row, which takes the focus for it; null when the row is not on this page. */
export const rowLink = (id: string | undefined): HTMLElement | null =>
  id === undefined ? null : document.querySelector(`tr[data-id="${CSS.escape(id)}"] .row-link`);

/** A button and its dialog: every shortcut of the page, and the switch that turns them off. */
export const ShortcutHelp = (props: {
  shortcuts: readonly Shortcut[];
  choice: ShortcutSwitch;
  /** Receives the dialog, for the shortcut that opens it. */
  ref: (dialog: HTMLDialogElement) => void;
}) => {
  const id = createUniqueId();
  let dialog!: HTMLDialogElement;
  const [opened, setOpened] = createSignal(false);
  return (
    <>
      <Button
        class="button-icon"
        title="Keyboard shortcuts and query language (?)"
        onClick={() => dialog.showModal()}
      >
        <span aria-hidden="true">?</span>
        <span class="visually-hidden">Keyboard shortcuts</span>
      </Button>
      <dialog
        ref={(element) => {
          dialog = element;
          props.ref(element);
        }}
        class="popover shortcuts"
        aria-labelledby={id}
        // A modal dialog takes the focus.
        onFocusIn={() => setOpened(true)}
      >
        <h2 id={id}>Keyboard shortcuts</h2>
        <label class="shortcuts-switch">
          <input
            type="checkbox"
            checked={props.choice.on()}
            onChange={(event) => props.choice.turn(event.currentTarget.checked)}
          />
          Use single-key shortcuts
        </label>
        <Show when={opened()}>
          <ShortcutList shortcuts={props.shortcuts} />
        </Show>
        <form method="dialog">
          <button class="button" type="submit">
            Close
          </button>
        </form>
      </dialog>
    </>
  );
};
