import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  distinctStates,
  type FleetFilter,
  filterParts,
  filterSecondsMax,
  filterToParams,
} from "../../../../proto/fleet-health/filter.ts";
import { driftKinds, fleetStates, forwardings } from "../../../../proto/fleet-health/vocabulary.ts";
import { filterFromParams } from "./filter.ts";
import { parseQuery } from "./parse.ts";
import { pillsOf, serialiseFilter } from "./serialise.ts";
import { splitWords } from "./words.ts";

/** Texts that stress the language: quotes, backslashes, operators, spaces of every kind, no control characters. */
const text = (lengthMax: number) =>
  fc
    .array(
      fc.oneof(
        fc.constantFrom(" ", "  ", '"', "\\", ":", "-", "state:", "hb>", "device://", "\u00a0", ",", "ü", "🛰"),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 }),
      ),
      { minLength: 1, maxLength: 8 },
    )
    .map((parts) => parts.join("").replace(/\p{Cc}/gu, "·"))
    .filter((joined) => joined.length <= lengthMax && joined.isWellFormed());

const seconds = fc.integer({ min: 0, max: filterSecondsMax });
const filters: fc.Arbitrary<FleetFilter> = fc.record(
  {
    states: fc.subarray([...fleetStates], { minLength: 1, maxLength: 8 }).map((states) => distinctStates(states) ?? []),
    text: text(filterParts.text.charactersMax),
    device: text(filterParts.device.charactersMax),
    identity: text(filterParts.identity.charactersMax),
    platform: text(filterParts.platform.charactersMax),
    version: text(filterParts.version.charactersMax),
    notVersion: text(filterParts.notVersion.charactersMax),
    drift: fc.constantFrom(...driftKinds),
    heartbeatOlderThanSeconds: seconds,
    expiresWithinSeconds: seconds,
    heartbeat: fc.constant("recent" as const),
    forwarding: fc.constantFrom(...forwardings),
  },
  { requiredKeys: [] },
);

describe("the query language", () => {
  it("parses every filter that it writes", () =>
    fc.assert(
      fc.property(filters, (filter) => {
        expect(parseQuery(serialiseFilter(filter))).toEqual({ filter, faults: [] });
      }),
    ));

  it.each<[FleetFilter, string]>([
    [{ version: "<1.2" }, 'version:"<1.2"'],
    [{ notVersion: ">" }, '-version:">"'],
    [{ platform: "<\u0338", device: "a<b" }, 'device:a<b platform:"<\u0338"'],
  ])("quotes the value of %j that begins like an operator", (filter, query) => {
    expect(serialiseFilter(filter)).toBe(query);
    expect(parseQuery(query)).toEqual({ filter, faults: [] });
  });

  it("has one spelling for each filter", () =>
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (query) => {
        const { filter, faults } = parseQuery(query);
        fc.pre(faults.length === 0);
        const written = serialiseFilter(filter);
        expect(serialiseFilter(parseQuery(written).filter)).toBe(written);
      }),
    ));

  it("places every fault inside the query", () =>
    fc.assert(
      fc.property(text(200), (query) => {
        for (const { from, to, message } of parseQuery(query).faults) {
          expect(from).toBeGreaterThanOrEqual(0);
          expect(to).toBeLessThanOrEqual(query.length);
          expect(from).toBeLessThan(to);
          expect(message).not.toBe("");
        }
      }),
    ));

  it.each<[string, FleetFilter]>([
    ["", {}],
    ["web 01", { text: "web 01" }],
    ["  web \t 01 ", { text: "web 01" }],
    ['"web  01"', { text: "web  01" }],
    ["spiffe://fleet/web-01", { text: "spiffe://fleet/web-01" }],
    ["10.0.0.1:4317", { text: "10.0.0.1:4317" }],
    ["00:1a:2b", { text: "00:1a:2b" }],
    ["-web", { text: "-web" }],
    ["web state:stale 01", { text: "web 01", states: ["stale"] }],
    ["state:stale state:revoked", { states: ["revoked", "stale"] }],
    ["state:stale,revoked", { states: ["revoked", "stale"] }],
    [`state:${fleetStates.join(",")}`, {}],
    [
      "-state:healthy,enrolling",
      { states: distinctStates(fleetStates.filter((s) => s !== "healthy" && s !== "enrolling")) ?? [] },
    ],
    ["state:stale,healthy -state:healthy", { states: ["stale"] }],
    ["identity:spiffe://fleet/a:b", { identity: "spiffe://fleet/a:b" }],
    ['device:"rack 4: left"', { device: "rack 4: left" }],
    ['device:"say \\"hi\\" \\\\"', { device: 'say "hi" \\' }],
    ["version:1.2.3", { version: "1.2.3" }],
    ["-version:1.2.3", { notVersion: "1.2.3" }],
    ["drift:drifted forwarding:never", { drift: "drifted", forwarding: "never" }],
    ["heartbeat:recent forwarding:stopped", { heartbeat: "recent", forwarding: "stopped" }],
    ["hb>10m expires<3d", { heartbeatOlderThanSeconds: 600, expiresWithinSeconds: 259_200 }],
    ["hb:>10m HB>10m", { heartbeatOlderThanSeconds: 600 }],
  ])("parses %j", (query, filter) => expect(parseQuery(query)).toEqual({ filter, faults: [] }));

  it.each<[string, number, number, string]>([
    [
      "web stat:stale",
      4,
      9,
      'There is no stat:. Did you mean state:? To search for it as text, put it in quotes: "stat:stale"',
    ],
    ["hostname:web", 0, 9, "Did you mean device:?"],
    ["heartbeat>10m", 0, 10, "for an age, hb>10m"],
    ["colour:red", 0, 7, "There is no colour:. To search for it as text"],
    ["state:stal", 6, 10, "No state has this name. Did you mean stale?"],
    ["state:stale,queue", 6, 17, "Did you mean queue_at_risk?"],
    ["state:bad", 6, 9, "Use one of revoked, enrolling,"],
    ["drift:sync", 6, 10, "Use one of in_sync, drifted,"],
    ["device:", 0, 7, "device: needs a value, like device:web-01."],
    ["device:a device:b", 16, 17, "device: is given twice: keep one."],
    ["hb>10", 3, 5, "A duration is a whole number and s, m, h or d"],
    ["expires<9999999d", 8, 16, "At most 3650d."],
    ["hb<10m", 0, 3, "Write hb>10m: last heartbeat longer ago than."],
    ["hb:10m", 0, 3, "Write hb>10m"],
    ["expires>3d", 0, 8, "Write expires<3d"],
    ["-device:a", 0, 8, "Only state: and version: can be excluded"],
    ["forwarding:yes", 11, 14, "forwarding: takes forwarding"],
    ["heartbeat:10m", 10, 13, "heartbeat: takes recent; for an age write hb>10m."],
    ['web "open end', 4, 13, "This quote is not closed"],
    ['device:"open', 7, 12, "This quote is not closed"],
    ["state:stale -state:stale", 0, 24, "exclude each other"],
    [`device:${"x".repeat(129)}`, 7, 136, "Too long: at most 128 characters."],
    [`a ${"x".repeat(256)} state:stale`, 0, 258, "Too long: at most 256 characters."],
    ["a\u0007b", 0, 3, "Control characters cannot be searched for."],
  ])("finds the fault in %j", (query, from, to, message) => {
    expect(parseQuery(query).faults).toEqual([{ from, to, message: expect.stringContaining(message) }]);
  });

  it("keeps the valid parts beside a fault", () => {
    expect(parseQuery("state:stale hb>soon web").filter).toEqual({ states: ["stale"], text: "web" });
  });

  it("writes the shorter list of states", () => {
    const written = (states: Parameters<typeof distinctStates>[0]) =>
      serialiseFilter({ states: distinctStates(states) ?? [] });
    expect(written(["healthy", "stale"])).toBe("state:stale,healthy");
    expect(written(fleetStates.filter((state) => state !== "healthy"))).toBe("-state:healthy");
  });

  it("assigns every character that is not a space to one word", () =>
    fc.assert(
      fc.property(text(200), (query) => {
        const words = splitWords(query);
        const between = words.map(({ from }, index) => query.slice(words[index - 1]?.to ?? 0, from)).join("");
        expect(between + query.slice(words.at(-1)?.to ?? 0)).toMatch(/^\s*$/);
      }),
    ));
});

describe("the filter in an address", () => {
  it("parses to the same filter, among other parameters", () =>
    fc.assert(
      fc.property(filters, (filter) => {
        const params = new URLSearchParams(`id=1&${filterToParams(filter)}&sort=identity`);
        expect(filterFromParams(params)).toEqual(filter);
      }),
    ));

  it("has the parameters of the report", () => {
    const filter: FleetFilter = {
      states: ["stale", "healthy"],
      text: "a b",
      notVersion: "1.0.0",
      drift: "drifted",
      heartbeatOlderThanSeconds: 600,
      expiresWithinSeconds: 60,
      heartbeat: "recent",
      forwarding: "never",
    };
    const params = filterToParams(filter);
    expect(params.toString()).toBe(
      "state=stale&state=healthy&q=a+b&not_version=1.0.0&drift=drifted&heartbeat_older_than_seconds=600&expires_within_seconds=60&heartbeat=recent&forwarding=never",
    );
  });

  it("ignores parts that the report would reject", () => {
    const mangled = `state=well&state=stale&q=%00&device=${"x".repeat(129)}&drift=some&forwarding=always&heartbeat=old&platform=&heartbeat_older_than_seconds=-1&expires_within_seconds=1e9`;
    expect(filterFromParams(new URLSearchParams(mangled))).toEqual({ states: ["stale"] });
  });
});

describe("pills", () => {
  it("are the parts of the query, and each can be removed", () => {
    const filter = parseQuery("web state:stale,revoked device:a -version:1.0.0 hb>10m").filter;
    const pills = pillsOf(filter);
    expect(pills.map(({ label }) => label)).toEqual([
      "web",
      "state:revoked",
      "state:stale",
      "device:a",
      "-version:1.0.0",
      "hb>10m",
    ]);
    expect(pills.map(({ without }) => serialiseFilter(without))).toEqual([
      "state:revoked,stale device:a -version:1.0.0 hb>10m",
      "web state:stale device:a -version:1.0.0 hb>10m",
      "web state:revoked device:a -version:1.0.0 hb>10m",
      "web state:revoked,stale -version:1.0.0 hb>10m",
      "web state:revoked,stale device:a hb>10m",
      "web state:revoked,stale device:a -version:1.0.0",
    ]);
  });

  it("of excluded states include the state again", () => {
    const [healthy, enrolling] = pillsOf(parseQuery("-state:healthy,enrolling").filter);
    expect(healthy?.label).toBe("-state:enrolling");
    expect(serialiseFilter(healthy?.without ?? {})).toBe("-state:healthy");
    expect(serialiseFilter(enrolling?.without ?? {})).toBe("-state:enrolling");
    expect(pillsOf(parseQuery("-state:healthy").filter)[0]?.without).toEqual({});
  });

  it("leave an empty filter when all are removed", () =>
    fc.assert(
      fc.property(filters, (filter) => {
        let left = filter;
        for (let count = 0; pillsOf(left).length > 0; count += 1) {
          expect(count).toBeLessThan(20);
          left = pillsOf(left)[0]?.without ?? {};
        }
        expect(left).toEqual({});
      }),
    ));
});
