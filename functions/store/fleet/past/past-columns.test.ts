import { eq, sql } from "drizzle-orm";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { fleetCheckpoint } from "#drizzle/schema/fleet-history.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import { readFleetView } from "#functions/domain/fleet/view-rules.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { Database } from "#functions/store/database/database.ts";
import { fleetSorts, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { useTestCore } from "#tests/support/core.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import type { FleetColumns } from "../columns/fleet-columns.ts";
import { HostIndex } from "../columns/host-index.ts";
import { hostColumns, type NameColumn, nameColumns } from "../columns/packed-rows.ts";
import { columnNames, HostTable, loadHosts, typeOf } from "../columns/resident-hosts.ts";
import { countFleet } from "../facets.ts";
import { hostsAt, recordThresholds } from "../history.ts";
import { findFleetPage } from "../host-rows.ts";
import { summarizeFleet } from "../summary.ts";
import { createCheckpoints, findNextCheckpoint } from "./checkpoints.ts";
import {
  type CheckpointHosts,
  decodeCheckpoint,
  decodeLines,
  encodeCheckpoint,
  encodeLines,
} from "./encode-checkpoint.ts";
import { createPastColumns } from "./past-columns.ts";
import { readChanges, rewindHosts, takeBack } from "./rewind-hosts.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const { db, clock, core, config } = test;
await recordThresholds(db, fleetThresholds(config), new Date(clock.now()));
await test.seedFleet(300);
const minute = 60_000;
/** Hosts report, each at a time of its own, and some of them change. */
for (let round = 0; round < 3; round++) {
  await clock.advance(10 * minute);
  await seedFleet(db, {
    first: 301 + round * 20,
    count: 320 + round * 20,
    now: new Date(clock.now()),
  });
  const at = sql`${clock.iso()}::timestamptz`;
  await db.execute(sql`
    update collector_health set last_heartbeat_at = ${at}, collector_version = case when boot_id = 'boot' then '1.4.' || ${round}::int end,
      queue_at_risk = not queue_at_risk, queue_at_risk_since = ${at}
    where identity_id in (select identity_id from collector_health order by identity_id offset ${round * 60}::int limit 100 for update)`);
  await db.execute(sql`update ingest_host set last_envelope_at = ${at}
    where host_id in (select host_id from ingest_host order by host_id offset ${round * 40}::int limit 100)`);
}
const codec = zstdCodec;
const present: FleetColumns = { current: () => loadHosts(db), load: async () => undefined };
const createColumns = () => createPastColumns({ db, clock, codec, present });
const pastColumns = createColumns();
const ago = (minutes: number) => new Date(clock.now() - minutes * minute);

/** What a table has of each host. */
const hostsOf = (table: HostTable) => {
  const names = table.allNames();
  const valueAt = (place: number) => (name: string) => {
    const value = table.values(name)[place];
    return Object.hasOwn(names, name) ? names[name as NameColumn][Number(value)] : value;
  };
  return Object.fromEntries(
    table.ids.slice(0, table.count).map((id, place) => {
      const columns = columnNames.map((name) => [name, valueAt(place)(name)] as const);
      return [id, { identity: table.index.identities[place], ...Object.fromEntries(columns) }];
    }),
  );
};

// Hosts enrolled 10 and 20 minutes ago, so that the difference has more of them than its base.
it.each([
  ["now", 0],
  ["a checkpoint", 15],
  ["the difference from another", 1],
])(
  "hosts of a later time have what the database has, once changes are taken back: %s",
  async (kind, minutesAgo) => {
    const until = kind === "now" ? null : ago(minutesAgo);
    const checkpoints = createCheckpoints({ db, codec });
    if (until) await checkpoints.add(until, await loadHosts(db, hostsAt(until)));
    const bases = await db.select({ baseAt: fleetCheckpoint.baseAt }).from(fleetCheckpoint);
    expect(bases.filter(({ baseAt }) => baseAt !== null)).toHaveLength(
      kind === "the difference from another" ? 1 : 0,
    );
    const next = until && (await findNextCheckpoint(db, until));
    const later = next
      ? ((await createCheckpoints({ db, codec }).read(next)) as HostTable)
      : await loadHosts(db);
    for (let minutes = minutesAgo + 1; minutes < 35; minutes += 4) {
      const from = new Date(ago(minutes).getTime() - minutes * 37);
      const expected = hostsOf(await loadHosts(db, hostsAt(from)));
      expect(hostsOf(await rewindHosts(db, later, { from, until }))).toEqual(expected);
    }
  },
);

describe("a checkpoint", () => {
  /** Values that need each number of bytes, and none that is left out. */
  const numbers = fc.constantFrom(
    -1,
    0,
    254,
    7e4,
    5e9,
    2 ** 53 - 1,
    1.5,
    Infinity,
    -Infinity,
    clock.now(),
    clock.now() + 1,
  );
  const valuesOf = (name: string) => {
    if ((nameColumns as readonly string[]).includes(name)) return fc.nat(2);
    if (hostColumns.keys.includes(name))
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    return hostColumns.flags.includes(name) ? fc.nat(1) : numbers;
  };
  const idOf = (nth: number) => `00000000-0000-7000-8000-${String(nth).padStart(12, "0")}`;
  const tables = (count: number) => {
    const each = columnNames.map((name) => [
      name,
      fc.array<number | bigint>(valuesOf(name), { minLength: count, maxLength: count }),
    ]);
    const texts = fc.shuffledSubarray(["1.0.0", "1.1.0", "2.0.0"], { minLength: 3 });
    return fc.tuple(fc.record(Object.fromEntries(each)), texts).map(([columns, names]) => {
      const index = new HostIndex();
      for (let nth = 0; nth < count; nth++) index.add(idOf(nth), `host ${nth}`);
      const created = (name: string) => new (typeOf(name))(count);
      const table = new HostTable(
        index,
        created,
        Object.fromEntries(nameColumns.map((name) => [name, names])),
      );
      for (const [name, values] of Object.entries<(number | bigint)[]>(columns))
        table.setEach(name, Uint32Array.from(values.keys()), (nth) => values[nth] ?? 0);
      return table;
    });
  };
  const tableOf = (read: CheckpointHosts | null) =>
    read && new HostTable(read.index, read.read, read.names, read.count);

  it("has every value of every column, whole and as the difference from another", () => {
    const property = fc.property(tables(5), tables(7), (before, table) => {
      const base = decodeCheckpoint(encodeCheckpoint(before, codec), codec, {
        index: before.index,
      });
      const whole = tableOf(base);
      const known = base ?? undefined;
      expect(whole && hostsOf(whole)).toEqual(hostsOf(before));
      const index = before.index.extend(5, decodeLines(encodeLines(table, 5)));
      const difference = tableOf(
        decodeCheckpoint(encodeCheckpoint(table, codec, known), codec, { index, base: known }),
      );
      expect(difference && hostsOf(difference)).toEqual(hostsOf(table));
    });
    fc.assert(property, { numRuns: runsOf(30) });
  });

  it("is a whole one where a host of the last one is no more", async () => {
    const at = ago(0.5);
    const checkpoints = createCheckpoints({ db, codec });
    const hosts = await loadHosts(db, hostsAt(at));
    const left = hosts.copy(Uint32Array.from({ length: hosts.count - 1 }, (_, place) => place + 1));
    await checkpoints.add(at, left);
    const written = await findNextCheckpoint(db, at);
    expect(written).toEqual({ at, baseAt: null });
    const read = written && (await createCheckpoints({ db, codec }).read(written));
    expect(
      read && hostsOf(takeBack(read, await readChanges(db, { from: at, until: at }), at)),
    ).toEqual(hostsOf(left));
    await db.delete(fleetCheckpoint).where(eq(fleetCheckpoint.at, at));
  });

  it.each([
    ["is damaged", { body: new Uint8Array(9) }, true],
    // The last byte of the data, before the checksum.
    [
      "has another byte",
      { body: sql`set_byte(body, length(body) - 5, get_byte(body, length(body) - 5) # 1)` },
      true,
    ],
    ["lacks its base", { baseAt: new Date(0) }, true],
    ["is of another version", { layout: sql`jsonb_set(layout, '{format}', '1')` }, false],
    ["lacks a column", { layout: sql`layout #- '{columns,version}'` }, false],
    ["was written before layouts", { layout: null }, false],
  ])("is as if it were not there, where it %s", async (_, damage, isFound) => {
    await expect(
      db.transaction(async (tx) => {
        await tx.update(fleetCheckpoint).set(damage);
        expect((await findNextCheckpoint(tx, ago(20))) !== undefined).toBe(isFound);
        const columns = createPastColumns({ db: tx as unknown as Database, clock, codec, present });
        const hosts = (await columns.at(ago(20), new Date(clock.now()))) as HostTable;
        expect(hostsOf(hosts)).toEqual(hostsOf(await loadHosts(db, hostsAt(ago(20)))));
        tx.rollback();
      }),
    ).rejects.toThrow("Rollback");
  });
});

describe("the past in core's memory", () => {
  it.each([25, 12, 2])(
    "has the rows and counts of the database, %d minutes ago",
    async (minutes) => {
      const resident = await readFleetView({ ...core, pastColumns }, { at: ago(minutes) });
      const stored = await readFleetView(core, { at: ago(minutes) });
      expect(resident.rules.versions.toSorted()).toEqual(stored.rules.versions.toSorted());
      for (const filter of [
        {},
        { states: fleetStates.slice(0, 4) },
        { version: ["1.4.*"] },
        { label: ["env:prod"] },
      ]) {
        expect(await summarizeFleet(resident, filter)).toEqual(
          await summarizeFleet(stored, filter),
        );
        expect(await countFleet(stored, filter)).toEqual(await countFleet(resident, filter));
        for (const sort of fleetSorts) {
          const page = { sort, order: "desc", limit: 50, after: null } as const;
          const expected = await findFleetPage(stored, filter, page);
          const actual = await findFleetPage(resident, filter, page);
          expect(actual.rows.map((row) => row.identity_id)).toEqual(
            expected.rows.map((row) => row.identity_id),
          );
          expect(actual.next?.id).toBe(expected.next?.id);
        }
      }
    },
  );

  it("is loaded once for a time, of which two are kept, until nobody has looked for five minutes", async () => {
    const execute = vi.spyOn(db, "execute");
    const columns = createColumns();
    const now = new Date(clock.now());
    const look = async (minutes: number) => {
      execute.mockClear();
      await columns.at(ago(minutes), now);
      return execute.mock.calls.length > 0;
    };
    expect([await look(20), await look(20), await look(10), await look(20)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect([await look(5), await look(20), await look(10)]).toEqual([true, false, true]);
    const at = ago(10);
    const again = async () => {
      execute.mockClear();
      await columns.at(at, now);
      return execute.mock.calls.length > 0;
    };
    await clock.advance(4 * minute);
    expect(await again()).toBe(false);
    await clock.advance(4 * minute);
    expect(await again()).toBe(false);
    await clock.advance(6 * minute);
    expect(await again()).toBe(true);
    execute.mockRestore();
  });

  it("is not kept while transactions of that time may not have ended", async () => {
    const columns = createColumns();
    const now = new Date(clock.now());
    const at = new Date(clock.now() - 59_000);
    expect(await columns.at(at, now)).not.toBe(await columns.at(at, now));
  });
});
