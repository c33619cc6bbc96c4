import { type JSX, onCleanup } from "solid-js";
import { Portal } from "solid-js/web";

/**
 * A dialog at the side of the page, open while it is mounted. Escape, and a click beside it, close it. It keeps the focus itself:
 * `showModal` makes the page inert, which restyles every row of a table at each opening and closing.
 */
export const Drawer = (props: {
  class: string;
  /** The id of its heading. */
  labelledBy: string;
  onClose: () => void;
  /** Receives the focus once it is closed. */
  returnFocus: () => HTMLElement | null | undefined;
  children: JSX.Element;
}) => {
  let dialog!: HTMLDialogElement;
  onCleanup(() => queueMicrotask(() => props.returnFocus()?.focus({ preventScroll: true })));
  return (
    <Portal>
      <div class="drawer-overlay" aria-hidden="true" onClick={() => props.onClose()} />
      <dialog
        ref={dialog}
        open
        class={`side-dialog ${props.class}`}
        aria-modal="true"
        aria-labelledby={props.labelledBy}
        onFocusOut={({ relatedTarget: next }) => {
          if (next instanceof Node && !dialog.contains(next))
            dialog.querySelector<HTMLElement>("button, a")?.focus();
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") props.onClose();
        }}
      >
        {props.children}
      </dialog>
    </Portal>
  );
};
