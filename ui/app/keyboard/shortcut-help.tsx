import { createUniqueId, For } from "solid-js";
import type { ShortcutSwitch } from "./create-shortcuts.ts";
import type { Shortcut } from "./shortcuts.ts";

/** A button and the dialog that it opens: every shortcut of the page, and the switch that turns them off. */
export const ShortcutHelp = (props: {
  shortcuts: readonly Shortcut[];
  choice: ShortcutSwitch;
  /** Receives the dialog, for the shortcut that opens it. */
  ref: (dialog: HTMLDialogElement) => void;
}) => {
  const id = createUniqueId();
  let dialog!: HTMLDialogElement;
  return (
    <>
      <button
        class="button button-icon"
        type="button"
        title="Keyboard shortcuts (?)"
        onClick={() => dialog.showModal()}
      >
        <span aria-hidden="true">?</span>
        <span class="visually-hidden">Keyboard shortcuts</span>
      </button>
      <dialog
        ref={(element) => {
          dialog = element;
          props.ref(element);
        }}
        class="popover shortcuts"
        aria-labelledby={id}
      >
        <h2 id={id}>Keyboard shortcuts</h2>
        <dl>
          <For each={props.shortcuts}>
            {({ key, meaning }) => (
              <div>
                <dt>
                  <kbd class="kbd">{keyNames[key] ?? key}</kbd>
                </dt>
                <dd>{meaning}</dd>
              </div>
            )}
          </For>
        </dl>
        <label class="shortcuts-switch">
          <input
            type="checkbox"
            checked={props.choice.on()}
            onChange={(event) => props.choice.turn(event.currentTarget.checked)}
          />
          Use single-key shortcuts
        </label>
        <form method="dialog">
          <button class="button" type="submit">
            Close
          </button>
        </form>
      </dialog>
    </>
  );
};

const keyNames: Readonly<Record<string, string>> = { Escape: "Esc" };
