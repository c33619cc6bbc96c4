import { For, type JSX, Show } from "solid-js";
import * as v from "valibot";
import { createReport } from "../api/live-report.tsx";
import { PopoverMenu } from "../design/buttons.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { formatCount, formatCountOf, inWords } from "../format/format.ts";

const AheadList = lazyPart(
  "The next 72 hours",
  async () => (await import("./ahead/ahead-list.tsx")).AheadList,
);
const ChangeList = lazyPart(
  "The list of changes",
  async () => (await import("./changes/change-list.tsx")).ChangeList,
);

// The parts of reports that the panel needs: the whole schemas would be a tenth of the page's script.
const Counted = v.object({ count: v.number() });
const Ahead = v.object({
  queues: Counted,
  certificates: Counted,
  tokens: Counted,
  system_certificates: Counted,
});
const Changes = v.object({
  items: v.array(v.object({ comparison: v.nullable(v.object({ verdict: v.string() })) })),
});
const Hours = v.object({
  settled_until: v.nullable(v.string()),
  hosts: v.number(),
  hosts_listed: v.number(),
});
const differences = {
  missing: ["missing", "/access/inventory?status=missing"],
  unexpected: ["not expected", "/fleet?inventory=unexpected"],
  gone: ["gone and sending", "/fleet?inventory=gone"],
} as const;
const Inventory = v.object({
  counts: v.nullable(v.object({ missing: v.number(), unexpected: v.number(), gone: v.number() })),
});

/** What runs out, what hosts changed, which hours are incomplete, and which hosts are missing: a line each, whose count leads to its rows. */
export const Outlook = (props: { trend: JSX.Element }) => {
  const ahead = createKnown(Ahead, "health/ahead");
  const changes = createKnown(Changes, "health/changes?limit=20");
  const hours = createKnown(Hours, "completeness?from=24h&limit=1");
  return (
    <ul class="outlook" aria-label="Outlook">
      <li>
        <PopoverMenu
          id="ahead-menu"
          button="Next 72 h"
          face={<Line name="Next 72 h" words={wordsOf(ahead(), wordsAhead)} />}
          class="ahead"
        >
          <AheadList />
        </PopoverMenu>
      </li>
      <li>
        <PopoverMenu
          id="changes-menu"
          button="Changes"
          face={<Line name="Changes" words={wordsOf(changes(), wordsOfChanges)} />}
          label="Upgrades and changes of labels"
          class="changes"
        >
          <ChangeList />
        </PopoverMenu>
      </li>
      <li>
        <a href="/data/completeness?from=24h">
          <Line name="Last 24 h" words={wordsOf(hours(), wordsOfHours)} />
        </a>
        {props.trend}
      </li>
      <li>
        <InventoryLine />
      </li>
    </ul>
  );
};

/** Creates a report, and returns its value while it is fresh: the page shows the age of its other figures. */
const createKnown = <Schema extends v.GenericSchema>(schema: Schema, path: string) => {
  const { phase, value } = createReport({
    schema,
    path: () => `/api/core/collector/${path}`,
    showsAge: true,
  });
  return () => (phase() === "fresh" ? value() : undefined);
};

const wordsOf = <Value,>(value: Value | undefined, words: (value: Value) => string) =>
  value === undefined ? "…" : words(value);

const wordsAhead = (ahead: v.InferOutput<typeof Ahead>) =>
  Object.entries(ahead)
    .flatMap(([kind, { count }]) =>
      count === 0 ? [] : formatCountOf(count, inWords(kind).slice(0, -1)),
    )
    .join(", ") || "nothing runs out";

const wordsOfChanges = ({ items }: v.InferOutput<typeof Changes>) => {
  const worse = items.filter(({ comparison }) => comparison?.verdict === "worse").length;
  if (items.length === 0) return "none";
  return `${formatCount(items.length)}, ${worse === 0 ? "none" : formatCount(worse)} worse`;
};

const wordsOfHours = ({ settled_until, hosts, hosts_listed }: v.InferOutput<typeof Hours>) => {
  if (settled_until === null) return "no hour has settled yet";
  return `${hosts_listed === 0 ? "none" : formatCount(hosts_listed)} of ${formatCountOf(hosts, "host")} incomplete`;
};

/** A name and what is known of it, which is cut where it does not fit. */
const Line = (props: { name: string; words: JSX.Element }) => (
  <>
    <span class="quiet">{props.name}</span> <span>{props.words}</span>
  </>
);

/** How many hosts the inventory and the fleet differ in, each a link to these; a link to the inventory where they agree, or there is none. */
const InventoryLine = () => {
  const report = createKnown(Inventory, "inventory?limit=1");
  const counts = () => report()?.counts;
  const differing = () =>
    Object.entries(differences).flatMap(([status, [words, href]]) => {
      const count = counts()?.[status as keyof typeof differences] ?? 0;
      return count === 0 ? [] : { href, words: `${formatCount(count)} ${words}` };
    });
  return (
    <Show
      when={differing().length > 0}
      fallback={
        <a href="/access/inventory">
          <Line
            name="Inventory"
            words={wordsOf(report(), ({ counts }) => (counts ? "all hosts enrolled" : "none"))}
          />
        </a>
      }
    >
      <Line
        name="Inventory"
        words={
          <For each={differing()}>
            {({ href, words }, index) => (
              <>
                {index() === 0 ? "" : ", "}
                <a href={href}>{words}</a>
              </>
            )}
          </For>
        }
      />
    </Show>
  );
};
