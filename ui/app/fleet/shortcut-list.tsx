import { For } from "solid-js";
import type { Shortcut } from "../browser/shortcuts.ts";
import { QueryReference } from "./query-language/query-reference.tsx";

const keyNames: Readonly<Record<string, string>> = { Escape: "Esc" };

/** The keys of the page, and the query language. */
export const ShortcutList = (props: { shortcuts: readonly Shortcut[] }) => (
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
    <QueryReference />
  </>
);
