/** The statements on the objects of a bucket (functions/store/ingest/objects.ts), on the model of the server. */
import { objectNameOf } from "#functions/objects/object-store.ts";
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

/** What a planted fault sweeps. */
const sweptStates: Readonly<Record<string, number>> = { stored: 1, drawn: 0 };

const findWaiting: Execute = async (server, _, [state, seconds, limit]) => {
  const before = server.now() - Number(seconds) * 1_000;
  const isWaiting = (row: ObjectRow) =>
    (row.state === Number(state) && row.changedAt < before) ||
    row.state === sweptStates[server.fault.sweeps ?? ""];
  return [...server.tables.objects.values()]
    .filter(isWaiting)
    .toSorted((one, other) => one.changedAt - other.changedAt)
    .slice(0, Number(limit))
    .map((row) => namedRow(server, row));
};

const namedRow = ({ tables, fault }: DatabaseServer, row: ObjectRow) => ({
  id: String(row.id),
  nonce: row.nonce,
  store_id: row.storeId,
  is_recent: row.changedAt > tables.restored.at && !fault.forgetsAges,
  state: row.state,
});

const findByIds: Execute = async (server, _, [ids]) => {
  const wanted = new Set(String(ids).match(/\d+/g)?.map(Number));
  return [...server.tables.objects.values()]
    .filter(({ id }) => wanted.has(id))
    .map((row) => namedRow(server, row));
};

/** Adds the name of a listed object; the sequence moves at once, as no transaction takes it back. */
const add: Execute = async (server, open, [last, id, nonce, storeId]) => {
  server.tables.lastObjectId = Math.max(server.tables.lastObjectId, Number(last));
  const row = { id: Number(id), nonce: String(nonce), storeId: Number(storeId) };
  server.write(open, ({ objects }) => {
    const name = objectNameOf(row.id, row.nonce);
    if (!objects.has(name)) objects.set(name, { ...row, state: 0, changedAt: 0 });
  });
  return [];
};

const keep: Execute = async (server, open, [, id, nonce]) => {
  const names = [objectNameOf(Number(id), String(nonce))];
  for (const name of await lockObjects(server, open, { names, state: 0 }))
    setState(server, open, { name, state: 1 });
  return [];
};

const findOldest: Execute = async ({ tables }) => {
  const drawn = [...tables.objects.values()].filter(({ state }) => state === 0);
  return [{ min: drawn.length > 0 ? Math.min(...drawn.map(({ id }) => id)) : null }];
};

const mark: Execute = async (server, open, params) => {
  const names = namesOf(params);
  for (const name of await lockObjects(server, open, { names, state: 0 }))
    setState(server, open, { name, state: 2 });
  return [];
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

const named =
  "select id, encode(nonce, 'hex') as nonce, store_id, changed_at > coalesce((select restored_at from database_lineage), 'epoch') as is_recent";

const statements: readonly (readonly [string, Execute])[] = [
  ["select location from ingest_store where id = $1", async () => [{ location: bucketLocation }]],
  ["insert into ingest_object (nonce, store_id, state, changed_at) select ", draw],
  [`${named}, state from ingest_object where id = any($1::bigint[])`, findByIds],
  [`${named} from ingest_object where state = `, findWaiting],
  ["select min(id) from ingest_object where state = 0 and store_id = ", findOldest],
  [
    "select case when is_called then last_value else 0 end from ingest_object_id_seq",
    async ({ tables }) => [{ last_value: String(tables.lastObjectId) }],
  ],
  [
    "with moved as ( select setval('ingest_object_id_seq', greatest(last_value, $1::bigint)) from ingest_object_id_seq)",
    add,
  ],
  ["update ingest_object set state = 1, changed_at = clock_timestamp(), received_at = ", keep],
  [
    "update ingest_object set state = 2, changed_at = clock_timestamp() where state = 0 and nonce =",
    mark,
  ],
  ["delete from ingest_object where state = 2 and nonce =", deleteRows],
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
