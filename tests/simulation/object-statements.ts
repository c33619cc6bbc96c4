/** The statements on the objects of a bucket (functions/store/ingest/objects.ts), on the model of the server. */
import { objectNameOf } from "#functions/objects/object-store.ts";
import { dayMs } from "#kit/clock.ts";
import { bucketLocation } from "./bucket.ts";
import { type DatabaseServer, serverError, type Transaction } from "./database.ts";
import type { ExecuteStatement } from "./export-statements.ts";
import type { ObjectRow } from "./tables.ts";

type Execute = (
  server: DatabaseServer,
  open: Transaction,
  params: readonly unknown[],
) => ReturnType<ExecuteStatement>;

const setState = (
  server: DatabaseServer,
  open: Transaction,
  { name, state }: { name: string; state: ObjectRow["state"] },
) =>
  server.write(open, ({ objects }) => {
    const row = objects.get(name);
    if (row) objects.set(name, { ...row, state, changedAt: server.now() });
  });

/** Locks the rows of objects, and returns the names of those that are in a state then. */
const lockObjects = async (
  server: DatabaseServer,
  open: Transaction,
  { names, state }: { names: readonly string[]; state: number },
) => {
  for (const name of names.toSorted()) await server.lock(open, `ingest_object\0${name}`);
  return names.filter((name) => server.tables.objects.get(name)?.state === state);
};

const namesOf = ([nonce, ids]: readonly unknown[]) =>
  Array.from(String(ids).matchAll(/\d+/g), ([id]) => objectNameOf(Number(id), String(nonce)));

const draw: Execute = async (server, open, [nonce, storeId, count]) => {
  await server.lock(open, "draw objects");
  if (server.fault.drawsAgain) server.tables.lastObjectId = 0;
  const ids = Array.from({ length: Number(count) }, () => ++server.tables.lastObjectId);
  server.write(open, ({ objects }) => {
    for (const id of ids)
      objects.set(objectNameOf(id, String(nonce)), {
        id,
        nonce: String(nonce),
        storeId: Number(storeId),
        state: 0,
        changedAt: server.now(),
      });
  });
  return ids.map((id) => ({ id: String(id) }));
};

/** Returns the last id of the objects in a state, or of all; 0 if none. */
const lastIdOf = ({ tables: { objects } }: DatabaseServer, state?: number): number =>
  objects
    .values()
    .filter((row) => state === undefined || row.state === state)
    .reduce((last, { id }) => Math.max(last, id), 0);

/** What a planted fault sweeps. */
const sweptStates: Readonly<Record<string, number>> = { stored: 1, drawn: 0 };

const findMarked: Execute = async (server, _, [seconds, , limit]) => {
  const before = server.now() - Number(seconds) * 1_000;
  const last = lastIdOf(server);
  const isMarked = (row: ObjectRow) =>
    (row.state === 2 && row.changedAt < before && row.id < last) ||
    row.state === sweptStates[server.fault.sweeps ?? ""];
  return [...server.tables.objects.values()]
    .filter(isMarked)
    .toSorted((one, other) => one.changedAt - other.changedAt)
    .slice(0, Number(limit))
    .map((row) => namedRow(server, row, 0));
};

const namedRow = (server: DatabaseServer, row: ObjectRow, drawnSeconds: number) => {
  const { tables, fault } = server;
  const isRecent = row.changedAt > tables.restored.at;
  const isInUse = row.changedAt >= server.now() - drawnSeconds * 1_000;
  return {
    id: String(row.id),
    nonce: row.nonce,
    store_id: row.storeId,
    is_recent: isRecent,
    is_ended: !(isRecent && isInUse),
    is_long: !fault.forgetsDays && (row.receivedAt ?? row.changedAt) < server.now() - dayMs,
  };
};

const findUnsettled: Execute = async (server, _, [seconds, id, nonce, limit]) => {
  const after = Number(id) === 0 ? "" : objectNameOf(Number(id), String(nonce));
  return [...server.tables.objects]
    .filter(([name, { state }]) => state === 0 && name > after)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .slice(0, Number(limit))
    .map(([, row]) => namedRow(server, row, Number(seconds)));
};

const hasEnded: Execute = async (server, _, [seconds]) => [
  {
    exists: [...server.tables.objects.values()].some(
      (row) => row.state === 0 && namedRow(server, row, Number(seconds)).is_ended,
    ),
  },
];

/** Adds the names of listed objects; the sequence moves at once, as no transaction takes it back. */
const register: Execute = async (server, open, [ids, nonces, above, newerAbove, storeId]) => {
  if (lastIdOf(server, 1) < Number(above)) return [{ count: 0 }];
  const listed = Array.from(String(ids).matchAll(/\d+/g), ([id]) => Number(id));
  const named = Array.from(String(nonces).matchAll(/[0-9a-f]+/g), ([nonce]) => nonce);
  const { tables } = server;
  const isNewer = (id: number) => id > Number(newerAbove);
  tables.lastObjectId = Math.max(tables.lastObjectId, ...listed.filter(isNewer));
  const receivedAt = server.now();
  let count = 0;
  let hasNewer = false;
  server.write(open, ({ objects }) => {
    for (const [index, id] of listed.entries()) {
      const nonce = named[index] ?? "";
      const name = objectNameOf(id, nonce);
      if (objects.has(name)) continue;
      count++;
      hasNewer ||= isNewer(id);
      const changedAt = isNewer(id) ? 0 : receivedAt;
      objects.set(name, { id, nonce, storeId: Number(storeId), state: 0, changedAt, receivedAt });
    }
    if (!hasNewer) return;
    for (const [name, row] of objects)
      if (row.state === 0 && row.changedAt !== 0)
        objects.set(name, { ...row, changedAt: 0, receivedAt });
  });
  return [{ count }];
};

const keep: Execute = async (server, open, [, id, nonce]) => {
  const names = [objectNameOf(Number(id), String(nonce))];
  for (const name of await lockObjects(server, open, { names, state: 0 }))
    setState(server, open, { name, state: 1 });
  return [];
};

const mark: Execute = async (server, open, params) => {
  const names = await lockObjects(server, open, { names: namesOf(params), state: 0 });
  for (const name of names) setState(server, open, { name, state: 2 });
  return names.map((name) => ({ name }));
};

const deleteRows: Execute = async (server, open, params) => {
  const names = namesOf(params);
  for (const name of await lockObjects(server, open, { names, state: 2 }))
    server.write(open, ({ objects, forgottenObjects }) => {
      objects.delete(name);
      if (!server.bucket.has(name)) forgottenObjects.add(name);
    });
  return [];
};

const lastId = "select coalesce(max(id), 0) from ingest_object";
const named = "select id, encode(nonce, 'hex') as nonce, store_id";

const statements: readonly (readonly [string, Execute])[] = [
  ["select location from ingest_store where id = $1", async () => [{ location: bucketLocation }]],
  ["with locked as materialized (select pg_advisory_xact_lock(hashtext('draw objects'))) ", draw],
  ["insert into ingest_object_damage", async () => []],
  [
    "select id, location, unlisted_above from ingest_store order by id",
    async () => [{ id: 1, location: bucketLocation, unlisted_above: null }],
  ],
  [`${named} from ingest_object where state = 2`, findMarked],
  [`${named}, changed_at > `, findUnsettled],
  ["select exists (select from ingest_object where state = 0", hasEnded],
  [`${lastId} where state = 1`, async (server) => [{ coalesce: String(lastIdOf(server, 1)) }]],
  [lastId, async (server) => [{ coalesce: String(lastIdOf(server)) }]],
  ["with listed as ( select id, decode(nonce, 'hex') as nonce from unnest(", register],
  ["update ingest_object set state = 1, changed_at = clock_timestamp(), received_at = ", keep],
  [
    "update ingest_object set state = 2, changed_at = clock_timestamp() where state = 0 and nonce =",
    mark,
  ],
  ["delete from ingest_object where state = 2 and nonce =", deleteRows],
  ["delete from ingest_object where state = 2 and store_id not in", async () => []],
];

/** Adds the statements on objects to others. */
export const withObjectStatements =
  (server: DatabaseServer, others: ExecuteStatement): ExecuteStatement =>
  (open, written, params) => {
    const text = written.trim().replaceAll(/\s+/g, " ");
    const [, execute] = statements.find(([start]) => text.startsWith(start)) ?? [];
    if (execute) return execute(server, open, params);
    // No partition of a simulation is dropped.
    if (text.includes("pg_advisory_xact_lock") || text.includes("pg_inherits"))
      return Promise.resolve([]);
    return others(open, written, params);
  };

/** Marks a drawn object as stored (drizzle/sql/ingest-consume-object.sql). */
export const consumeObject = async (
  server: DatabaseServer,
  open: Transaction,
  [id, nonce = ""]: readonly string[],
): Promise<void> => {
  const name = objectNameOf(Number(id), nonce);
  const { fault } = server;
  if (fault.consumesNothing) return;
  const [drawn] = await lockObjects(server, open, { names: [name], state: 0 });
  if (drawn === undefined && !fault.consumesAnything)
    throw serverError("IC002", "the name of an object is no longer valid");
  setState(server, open, { name, state: 1 });
};
