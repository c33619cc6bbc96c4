import type { Shortcut } from "../keyboard/shortcuts.ts";

/** What the keys of `/fleet` do; `drawerId` is the row whose drawer is open. */
export interface FleetActions {
  search(): void;
  exports(): void;
  help(): void;
  refresh(): void;
  drawerId(): string | undefined;
  showDrawer(id: string): void;
}

/** The keys of `/fleet`. `j` and `k` move the focus from row to row, and an open drawer with it. */
export const fleetShortcuts = (actions: FleetActions): Shortcut[] => {
  const step = (by: 1 | -1) => {
    const rows = [...document.querySelectorAll<HTMLElement>("tr[data-id]")];
    const drawerId = actions.drawerId();
    const focused = document.activeElement?.closest<HTMLElement>("tr[data-id]")?.dataset.id;
    const at = rows.findIndex(({ dataset }) => dataset.id === (drawerId ?? focused));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by]?.dataset.id;
    if (next === undefined) return;
    const link = rowLink(next);
    if (drawerId === undefined) link?.focus();
    else {
      actions.showDrawer(next);
      link?.scrollIntoView({ block: "nearest" });
    }
  };
  return [
    { key: "/", meaning: "Search and filter", run: actions.search },
    { key: "j", meaning: "Next row", run: () => step(1), inDialog: true },
    { key: "k", meaning: "Previous row", run: () => step(-1), inDialog: true },
    { key: "Enter", meaning: "Open the row" },
    { key: "Escape", meaning: "Close what is open" },
    { key: "e", meaning: "Export", run: actions.exports },
    { key: "r", meaning: "Refresh", run: actions.refresh },
    { key: "?", meaning: "This help", run: actions.help },
  ];
};

/** The link of a row, which stands for it by keyboard; null when it is not on this page. */
export const rowLink = (id: string | undefined): HTMLElement | null =>
  id === undefined ? null : document.querySelector(`tr[data-id="${CSS.escape(id)}"] .row-link`);
