import { For } from "solid-js";
import type { Shortcut, ShortcutSwitch } from "../browser/shortcuts.ts";
import { QueryReference } from "./query-language/query-reference.tsx";

const keyNames: Readonly<Record<string, string>> = { Escape: "Esc" };

/** The keys of the page, the switch that turns them off, and the query language. */
export const ShortcutList = (props: { shortcuts: readonly Shortcut[]; choice: ShortcutSwitch }) => (
  <>
    <dl>
      <For each={props.shortcuts}>
        {({ key, label }) => (
          <div>
            <dt>
              <kbd class="kbd">{keyNames[key] ?? key}</kbd>
            </dt>
            <dd>{label}</dd>
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
    <QueryReference />
  </>
);
