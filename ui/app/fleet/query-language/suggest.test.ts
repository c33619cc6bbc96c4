import fc from "fast-check";
import { expect, it } from "vitest";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { terms } from "#proto/fleet-health/query-language/terms.ts";
import { questions, suggest, takeSuggestion } from "./suggest.ts";

const values = {
  states: { stale: 12 },
  versions: [
    { version: "1.4.0", count: 90 },
    { version: "1.3 beta", count: 2 },
  ],
  platforms: [{ platform: "linux/amd64", count: 92 }],
  drift: [{ drift: "drifted", count: 3 }],
  labels: [
    {
      key: "env",
      count: 80,
      values: [
        { value: "prod", count: 70 },
        { value: "staging", count: 10 },
      ],
    },
    {
      key: "Team",
      count: 60,
      values: [
        { value: "Web", count: 50 },
        { value: "db", count: 10 },
      ],
    },
  ],
};
/** `|` is the cursor. */
const words = (marked: string) =>
  suggest(marked.replace("|", ""), marked.indexOf("|"), values).items.map(({ word }) => word);

const keys = terms.map(({ key, operators }) => `${key}${operators[0]}`);

it.each<[string, string[]]>([
  ["|", [...questions.map(({ word }) => word), ...keys]],
  ["web |", keys],
  ["d|", ["device:", "desired:", "drift:", "dropped>"]],
  ["la|", ["label.", "label.env:", "label.Team:"]],
  ["label.t|", ["label.Team:"]],
  ["-env|", ["-label.env:"]],
  ["label.env:p|", ["label.env:prod"]],
  ["-label.Team:Web,d|", ["-label.Team:Web,db"]],
  ["env:|", ["label.env:prod", "label.env:staging"]],
  ["label.ENV:|", []],
  ["st|", ["state:", "state:stale"]],
  ["web dri|", ["drift:", "drift:drifted"]],
  ["-d|", ["-device:", "-desired:", "-drift:", "-dropped>"]],
  ["state:re|", ["state:revoked", "state:renewal_failed"]],
  ["-state:he|", ["-state:healthy"]],
  ["state:stale,re|", ["state:stale,revoked", "state:stale,renewal_failed"]],
  ["state:st|ale", []],
  ["version:1|", ["version:1.4.0", 'version:"1.3 beta"']],
  ["-version:1.4|", ["-version:1.4.0"]],
  ["platform:|", ["platform:linux/amd64"]],
  ["platform:AMD|", ["platform:linux/amd64"]],
  ["progress:|", ["progress:silent", "progress:running", "progress:failed", "progress:drifted"]],
  ["forwarding:|", ["forwarding:forwarding", "forwarding:stopped", "forwarding:never"]],
  ["hb>1|", ["hb>10m", "hb>1h", "hb>1d"]],
  ["version:1.4.0,1|", ['version:1.4.0,"1.3 beta"']],
  ["expires<|", ["expires<1d", "expires<3d", "expires<7d", "expires<30d"]],
  ["expires:we|", ["expires:weekend"]],
  ["version>=1|", ["version>=1.4.0", 'version>="1.3 beta"']],
  ["queue>|", ["queue>50%", "queue>80%", "queue>1MiB", "queue>10MiB"]],
  ["hb:1|", ["hb>10m", "hb>1h", "hb>1d", "hb<10m", "hb<1h", "hb<1d"]],
  ["device:w|", []],
  ["colour:|", []],
  ['"st|', []],
])("complete %s", (marked, expected) => expect(words(marked)).toEqual(expected));

it("show how many hosts they find", () => {
  expect(suggest("state:sta", 9, values).items).toEqual([
    { word: "state:stale", meaning: "heartbeat overdue", count: 12, whole: true },
  ]);
});

it("replace the word under the cursor", () => {
  const query = "web sta hb>1h";
  const found = suggest(query, 7, values);
  const [key, stale] = found.items;
  expect(key && takeSuggestion(query, found, key)).toEqual({
    query: "web state: hb>1h",
    cursor: 10,
  });
  expect(stale && takeSuggestion(query, found, stale)).toEqual({
    query: "web state:stale hb>1h",
    cursor: 16,
  });
});

it("lead to queries without faults", () =>
  fc.assert(
    fc.property(
      fc.constantFrom(
        "",
        "st",
        "-v",
        "-platform:",
        "version:1.4.0,",
        "version:",
        "state:stale,",
        "hb>",
        "dri",
        "platform:l",
      ),
      fc.nat(8),
      (begun, index) => {
        const found = suggest(begun, begun.length, values);
        const item = found.items[index];
        if (item?.whole)
          expect(parseQuery(takeSuggestion(begun, found, item).query, new Date()).faults).toEqual(
            [],
          );
      },
    ),
  ));
