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
    .map(({ id, nonce, storeId }) => ({
      id: String(id),
      nonce,
      store_id: storeId,
      is_recent: true,
    }));
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

const statements: readonly (readonly [string, Execute])[] = [
  ["select location from ingest_store where id = $1", async () => [{ location: bucketLocation }]],
  ["insert into ingest_object (nonce, store_id, state, changed_at) select ", draw],
  ["select id, encode(nonce, 'hex') as nonce, store_id, changed_at >", findWaiting],
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
