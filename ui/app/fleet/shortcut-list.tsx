import { For } from "solid-js";
import { exampleOf } from "#proto/fleet-health/query-language/parse.ts";
import { terms } from "#proto/fleet-health/query-language/terms.ts";
import type { Shortcut } from "../browser/shortcuts.ts";

/** How terms and words combine: a query, and what it finds. */
const rules: readonly (readonly [query: string, meaning: string])[] = [
  [
    "web dc-3",
    "both words, each in a name, version or platform; an id, serial number or fingerprint as it was copied",
  ],
  ['"rack 4"', "words with spaces, or with a meaning in the language"],
  ["state:stale version<1.4", "both: words and terms are joined by AND"],
  ["state:stale,revoked", "one of several values; there is no other OR"],
  ["-platform:linux -web", "neither: a minus excludes a term or a word"],
  ["forwarding:stopped since:10:00", "nothing since the last 10:00 in UTC"],
  ["forwarding:stopped -since:10:00", "stopped later than 10:00"],
  ["at:02:41", "the page as it was at the last 02:41 in UTC"],
];

/** The query language in two lists: how queries are built, and every term with an example. */
const QueryReference = () => (
  <>
    <h2>Query language</h2>
    <dl class="query-reference">
      <For each={rules}>{([query, meaning]) => <Entry code={query} meaning={meaning} />}</For>
    </dl>
    <h3>Terms</h3>
    <dl class="query-reference">
      <For each={terms}>{(term) => <Entry code={exampleOf(term)} meaning={term.meaning} />}</For>
    </dl>
  </>
);

const Entry = (props: { code: string; meaning: string }) => (
  <div>
    <dt>
      <code>{props.code}</code>
    </dt>
    <dd>{props.meaning}</dd>
  </div>
);

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
