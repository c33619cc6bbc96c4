import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { arbitraryFilter, arbitraryText } from "#tests/support/arbitrary-filter.ts";
import { distinctStates, type FleetFilter, filterToParams } from "../filter.ts";
import { fleetStates } from "../vocabulary.ts";
import { parseFilterLink } from "./filter-link.ts";
import {
  parseQuery as parseAt,
  pillsOf as pillsAt,
  serialiseFilter as serialiseAt,
} from "./parse.ts";
import { splitWords } from "./words.ts";

const filters = arbitraryFilter();

/** A Sunday at noon. */
const now = new Date("2026-11-22T12:00:00Z");
const parseQuery = (query: string) => parseAt(query, now);
const serialiseFilter = (filter: FleetFilter) => serialiseAt(filter, now);
const pillsOf = (filter: FleetFilter) => pillsAt(filter, now);
const utc = (...fields: [number, number, number, number?, number?]) =>
  new Date(Date.UTC(...fields)).toISOString().replace(".000", "");

describe("the query language", () => {
  it("parses every filter that it writes", () =>
    fc.assert(
      fc.property(filters, (filter) => {
        expect(parseQuery(serialiseFilter(filter))).toEqual({ filter, faults: [] });
      }),
    ));

  it.each<[FleetFilter, string]>([
    [{ version: ["<1.2"] }, 'version:"<1.2"'],
    [{ notVersion: [">"] }, '-version:">"'],
    [{ platform: ["<\u0338"], device: ["a<b", "b,c"] }, 'device:a<b,"b,c" platform:"<\u0338"'],
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
      fc.property(arbitraryText(200), (query) => {
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
    ["web 01", { text: ["web", "01"] }],
    ["  web \t 01 ", { text: ["web", "01"] }],
    ['"web  01"', { text: ["web  01"] }],
    ["spiffe://fleet/web-01", { text: ["spiffe://fleet/web-01"] }],
    ["10.0.0.1:4317", { text: ["10.0.0.1:4317"] }],
    ["00:1a:2b", { text: ["00:1a:2b"] }],
    ["-web", { notText: ["web"] }],
    ['"-web" --web', { text: ["-web"], notText: ["-web"] }],
    ['-"web 01" -ab:cd:ef:01', { notText: ["web 01", "ab:cd:ef:01"] }],
    ["AB:CD:EF:01", { text: ["AB:CD:EF:01"] }],
    ["or", { text: ["or"] }],
    ['web "OR" db', { text: ["web", "OR", "db"] }],
    ["web state:stale 01", { text: ["web", "01"], states: ["stale"] }],
    ["state:stale state:revoked", { states: ["revoked", "stale"] }],
    ["state:stale,revoked", { states: ["revoked", "stale"] }],
    [`state:${fleetStates.join(",")}`, {}],
    [
      "-state:healthy,enrolling",
      {
        states:
          distinctStates(fleetStates.filter((s) => s !== "healthy" && s !== "enrolling")) ?? [],
      },
    ],
    ["state:stale,healthy -state:healthy", { states: ["stale"] }],
    ["identity:spiffe://fleet/a:b", { identity: ["spiffe://fleet/a:b"] }],
    ['device:"rack 4: left"', { device: ["rack 4: left"] }],
    ['device:"say \\"hi\\" \\\\"', { device: ['say "hi" \\'] }],
    ["version:1.2.3", { version: ["1.2.3"] }],
    ["-version:1.2.3", { notVersion: ["1.2.3"] }],
    ["drift:drifted forwarding:never", { drift: ["drifted"], forwarding: ["never"] }],
    ["heartbeat:recent forwarding:stopped", { heartbeat: ["recent"], forwarding: ["stopped"] }],
    ["hb>10m expires<3d", { heartbeatOlderThanSeconds: 600, expiresWithinSeconds: 259_200 }],
    ["device:a,b device:c,a", { device: ["a", "b", "c"] }],
    ['device:"a,b",c', { device: ["a,b", "c"] }],
    [
      "-drift:in_sync,unknown -hb>1h",
      { notDrift: ["in_sync", "unknown"], notHeartbeatOlderThanSeconds: 3600 },
    ],
    ["label.env:prod", { label: ["env:prod"] }],
    [
      "label.team:b,a LABEL.env:prod -label.App.Tier:*",
      { label: ["env:prod", "team:a", "team:b"], notLabel: ["App.Tier:*"] },
    ],
    ["fwd>10m hb<5m", { heartbeatWithinSeconds: 300, envelopeOlderThanSeconds: 600 }],
    ["since:10:00", { silentSince: utc(2026, 10, 22, 10, 0) }],
    [
      "since:13:30 -since:yesterday",
      { silentSince: utc(2026, 10, 21, 13, 30), notSilentSince: utc(2026, 10, 21) },
    ],
    ["since:2h changed<1h", { silentSince: utc(2026, 10, 22, 10, 0), changedWithinSeconds: 3600 }],
    [
      "config:F8B4C0 desired:f8b4c0,a1b2c3",
      { config: ["f8b4c0"], desiredConfig: ["f8b4c0", "a1b2c3"] },
    ],
    ["version<1.4 version>=v1.2.0-rc.1", { versionRange: ["<1.4", ">=1.2.0-rc.1"] }],
    ["version:1.8.*,latest -version<2", { version: ["1.8.*", "latest"], notVersionRange: ["<2"] }],
    ["platform:linux auth:failed", { platform: ["linux"], auth: ["failed"] }],
    [
      "dropped>0 queue>50% queue>10MiB",
      { droppedMoreThan: 0, queueAbovePercent: 50, queueAboveBytes: 10_485_760 },
    ],
    ["queue>2gb", { queueAboveBytes: 2_147_483_648 }],
    ["expires:weekend", { expires: [`${utc(2026, 10, 21)}..${utc(2026, 10, 23)}`] }],
    [
      "expires:2026-11-28..2026-11-30,tomorrow",
      {
        expires: [
          `${utc(2026, 10, 28)}..${utc(2026, 11, 1)}`,
          `${utc(2026, 10, 23)}..${utc(2026, 10, 24)}`,
        ],
      },
    ],
    ["serial=0A1B2C3D 0a:1b:2c:3d", { text: ["serial=0A1B2C3D", "0a:1b:2c:3d"] }],
    ["hb:>10m HB>10m", { heartbeatOlderThanSeconds: 600 }],
  ])("parses %j", (query, filter) => expect(parseQuery(query)).toEqual({ filter, faults: [] }));

  it.each<[marked: string, message: string]>([
    [
      "web ‹stat:›stale",
      'There is no stat:. Did you mean state:? To search for it as text, put it in quotes: "stat:stale"',
    ],
    ["‹host:›web", "Did you mean device:?"],
    ["‹heartbeat>›10m", "for an age, hb>10m"],
    ["‹colour:›red", "There is no colour:. To search for it as text"],
    ["‹env:›prod", "For a label write label.env:prod."],
    ["‹label:›prod", "Write label.env:prod: label of the host."],
    ["‹label.env>›5", "Write label.env:prod: label of the host."],
    ["label.env:‹pr/od›", "No label can have this value: at most 63 letters"],
    ["label.-x:‹prod›", "No label can have this key: at most 63 letters"],
    ["state:‹stal›", "No state has this name. Did you mean stale?"],
    ["state:‹stale,queue›", "Did you mean queue_at_risk?"],
    ["state:‹bad›", "Use one of revoked, enrolling,"],
    ["drift:‹sync›", "Use one of in_sync, drifted,"],
    ["‹device:›", "device: needs a value, like device:web-01."],
    ["hb>1m hb>‹2m›", "hb> is given twice: keep one."],
    ["device:‹a,,b›", "A value is missing beside a comma, like device:web-01."],
    ["hb>‹1m,2m›", "A duration is a whole number"],
    ["web ‹OR› db", "There is no OR. Write several values of one key with commas"],
    [
      "state:stale ‹or› state:revoked",
      "There is no OR. Write several values with commas: state:stale,revoked.",
    ],
    ["web ‹AND› db", "joined by AND already"],
    ["‹not› web", "write a minus"],
    ["hb>‹10›", "A duration is a whole number and s, m, h or d"],
    ["expires<‹9999999d›", "At most 3650d."],
    ["since:‹25:00›", "A time is like 10:00"],
    ["config:‹f8b4›", "6 to 64 hexadecimal digits"],
    ["version<‹latest›", "like 1.4, 1.4.2 or 1.4.2-rc.1."],
    ["version<‹1.4-rc.1›", "like 1.4, 1.4.2"],
    ["queue>‹50›", "a share like 50%, or a size like 10MiB."],
    ["queue>‹101%›", "a share like 50%"],
    ["dropped>‹some›", "A count is a whole number"],
    ["‹dropped<›5", "Write dropped>0"],
    ["expires:‹30d›", "for a duration, expires<3d"],
    ["expires:‹2026-11-30..2026-11-28›", "Write weekend"],
    ["auth:‹bad›", "auth: takes failed or failing."],
    [
      "‹hb:›10m",
      "Write hb>10m: last heartbeat longer ago than. Write hb<10m: last heartbeat within.",
    ],
    ["‹expires>›3d", "Write expires<3d"],
    ["forwarding:‹yes›", "Use one of forwarding, stopped, never."],
    ["heartbeat:‹10m›", "heartbeat: takes recent or never. For an age write hb>10m."],
    ['web ‹"open end›', "This quote is not closed"],
    ['device:‹"open›', "This quote is not closed"],
    ["‹state:stale -state:stale›", "exclude each other"],
    [`device:‹${"x".repeat(129)}›`, "Too long: at most 128 characters."],
    [`a ‹${"x".repeat(257)}› state:stale`, "Too long: at most 256 characters."],
    ["‹a\u0007b›", "Control characters cannot be searched for."],
  ])("finds the fault that is marked in %j", (marked, message) => {
    const from = marked.indexOf("‹");
    const to = marked.indexOf("›") - 1;
    expect(parseQuery(marked.replace(/[‹›]/g, "")).faults).toEqual([
      { from, to, message: expect.stringContaining(message) },
    ]);
  });

  it("keeps the valid parts beside a fault", () => {
    expect(parseQuery("state:stale hb>soon web").filter).toEqual({
      states: ["stale"],
      text: ["web"],
    });
  });

  it("writes the shorter list of states", () => {
    const written = (states: Parameters<typeof distinctStates>[0]) =>
      serialiseFilter({ states: distinctStates(states) ?? [] });
    expect(written(["healthy", "stale"])).toBe("state:stale,healthy");
    expect(written(fleetStates.filter((state) => state !== "healthy"))).toBe("-state:healthy");
  });

  it("assigns every character that is not a space to one word", () =>
    fc.assert(
      fc.property(arbitraryText(200), (query) => {
        const words = splitWords(query);
        const between = words
          .map(({ from }, index) => query.slice(words[index - 1]?.to ?? 0, from))
          .join("");
        expect(between + query.slice(words.at(-1)?.to ?? 0)).toMatch(/^\s*$/);
      }),
    ));
});

describe("the filter in an address", () => {
  it("parses to the same filter, among other parameters", () =>
    fc.assert(
      fc.property(filters, (filter) => {
        const params = new URLSearchParams(`id=1&${filterToParams(filter)}&sort=identity`);
        expect(parseFilterLink(params, ["id", "sort"])).toEqual({ filter, faults: [] });
      }),
    ));

  it("has the parameters of the report", () => {
    const filter: FleetFilter = {
      states: ["stale", "healthy"],
      text: ["a b", "c"],
      notVersion: ["1.0.0", "1.1.0"],
      drift: ["drifted"],
      heartbeatOlderThanSeconds: 600,
      expiresWithinSeconds: 60,
      heartbeat: ["recent"],
      forwarding: ["never"],
    };
    const params = filterToParams(filter);
    expect(params.toString()).toBe(
      "state=stale&state=healthy&q=a+b&q=c&not_version=1.0.0&not_version=1.1.0&drift=drifted&heartbeat=recent&forwarding=never&heartbeat_older_than_seconds=600&expires_within_seconds=60",
    );
  });

  it.each<[string, string]>([
    ["state=stal", "state has no value stal. Did you mean stale?"],
    ["state=stale&state=bad", "state has no value bad. It is one of revoked, enrolling,"],
    ["not_state=healty", "not_state has no value healty. Did you mean healthy?"],
    ["state=stale&not_state=stale", "state and not_state must leave a state."],
    ["sate=stale", "There is no parameter sate. Did you mean state?"],
    ["colour=red", "There is no parameter colour."],
    ["drift=", "drift has no value “”. It is one of in_sync,"],
    ["q=%00", "q must not hold control characters."],
    [`device=${"x".repeat(129)}`, "device must be at most 128 characters."],
    ["hb=10m", "There is no parameter hb."],
    ["heartbeat_older_than_seconds=-1", "heartbeat_older_than_seconds must be a whole number."],
    [
      "expires_within_seconds=1&expires_within_seconds=2",
      "expires_within_seconds must be given once.",
    ],
    ["expires=2026-11-28", "expires must be FROM..TO"],
    ["version_range=1.4", "version_range must be <, <=, > or >= and a version"],
  ])("refuses %s with a sentence, and keeps the valid parts", (link, sentence) => {
    const { filter, faults } = parseFilterLink(new URLSearchParams(`forwarding=never&${link}`), []);
    expect(faults).toEqual([expect.stringContaining(sentence)]);
    expect(filter).toEqual({ forwarding: ["never"] });
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
