/**
 * The entries of a backup: `manifest.json`, the secrets that core's settings name, the rows of each table in parts, and `end.json` with how
 * many rows each has (docs/backup.md).
 */
import * as v from "valibot";
import type { ArchiveEntry } from "./archive.ts";
import { BackupRefused } from "./archive.ts";

/** The bound of a partition as PostgreSQL writes it. It becomes part of a statement, and anybody can encrypt a backup to the recipient. */
const Bound = v.pipe(v.string(), v.regex(/^(DEFAULT|FOR VALUES FROM \('[^'\\]*'\) TO \('[^'\\]*'\))$/));
/** Becomes the name of a file. */
const Setting = v.pipe(v.string(), v.regex(/^[A-Z][A-Z0-9_]*$/));

const Table = v.strictObject({
  name: v.string(),
  columns: v.array(v.string()),
  partitions: v.array(v.strictObject({ name: v.string(), bound: Bound })),
});

const Manifest = v.strictObject({
  format: v.literal("svc-backup/1"),
  /** The time of the snapshot, by the database's clock. */
  at: v.string(),
  version: v.string(),
  tenant_id: v.string(),
  with_telemetry: v.boolean(),
  migrations: v.array(v.strictObject({ name: v.string(), sha256: v.string() })),
  sequences: v.record(v.string(), v.string()),
  tables: v.array(Table),
  /** Core's settings that are no secret, the paths of files included. */
  settings: v.record(Setting, v.string()),
});

/** What a backup says of itself. */
export type BackupManifest = v.InferOutput<typeof Manifest>;

const End = v.strictObject({ rows: v.record(v.string(), v.number()) });

/** What the last entry says: the rows of each table. */
export type BackupEnd = v.InferOutput<typeof End>;

/** Whether a setting names a file. */
export const namesFile = (setting: string): boolean => /_(FILE|PATH)$/.test(setting);

const names = { manifest: "manifest.json", end: "end.json", secrets: "secrets/", tables: "tables/" };
const partBytes = 4 * 1024 * 1024;

const jsonEntry = (name: string, value: object): ArchiveEntry => ({
  name,
  data: new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`),
});

/** The content of a backup. `readRows` yields the rows of a table and returns how many there were. */
export interface BackupContent {
  manifest: BackupManifest;
  /** By the setting that names the file, or that holds the secret. */
  secrets: ReadonlyMap<string, Uint8Array>;
  readRows(table: BackupManifest["tables"][number]): AsyncGenerator<Uint8Array, number, void>;
}

/** Returns the entries of a backup. */
export const backupEntries = async function* ({
  manifest,
  secrets,
  readRows,
}: BackupContent): AsyncGenerator<ArchiveEntry, void, void> {
  yield jsonEntry(names.manifest, manifest);
  for (const [name, data] of secrets) yield { name: `${names.secrets}${name}`, data };
  const counts: Record<string, number> = {};
  for (const table of manifest.tables) {
    let [part, size]: [Uint8Array[], number] = [[], 0];
    let index = 0;
    const takePart = (): ArchiveEntry => {
      const entry = {
        name: `${names.tables}${table.name}/${String(index++).padStart(6, "0")}`,
        data: Buffer.concat(part),
      };
      [part, size] = [[], 0];
      return entry;
    };
    const rows = readRows(table);
    let next = await rows.next();
    for (; !next.done; next = await rows.next()) {
      part.push(next.value);
      size += next.value.length;
      if (size >= partBytes) yield takePart();
    }
    if (size > 0) yield takePart();
    counts[table.name] = next.value;
  }
  yield jsonEntry(names.end, { rows: counts } satisfies BackupEnd);
};

/** What reads a backup: its secrets come before its tables, and the tables in the order of the manifest. */
export interface BackupReader {
  onManifest(manifest: BackupManifest): Promise<void>;
  onSecret?(name: string, data: Uint8Array): Promise<void>;
  /** Reads all rows; returns how many there were, undefined where it does not count. */
  onTable(table: BackupManifest["tables"][number], rows: AsyncIterable<Uint8Array>): Promise<number | undefined>;
}

/** Reads a backup to its end. Throws `BackupRefused` for one that is not whole. */
export const readBackup = async (
  archive: AsyncIterable<ArchiveEntry>,
  reader: BackupReader,
): Promise<BackupManifest> => {
  const entries = archive[Symbol.asyncIterator]();
  let next = await entries.next();
  const take = async () => {
    if (next.done) throw new BackupRefused("the backup has no end");
    const { value } = next;
    next = await entries.next();
    return value;
  };
  const manifest = parse(Manifest, await take(), names.manifest);
  await reader.onManifest(manifest);
  while (!next.done && next.value.name.startsWith(names.secrets)) {
    const { name, data } = await take();
    const setting = v.safeParse(Setting, name.slice(names.secrets.length));
    if (!setting.success) throw new BackupRefused(`${name} is no setting of core`);
    await reader.onSecret?.(setting.output, data);
  }
  const counts: Record<string, number | undefined> = {};
  for (const table of manifest.tables) {
    const prefix = `${names.tables}${table.name}/`;
    const parts = async function* () {
      while (!next.done && next.value.name.startsWith(prefix)) yield (await take()).data;
    };
    counts[table.name] = await reader.onTable(table, parts());
    for await (const _ of parts());
  }
  const { rows } = parse(End, await take(), names.end);
  for (const [table, count] of Object.entries(counts))
    if (count !== undefined && count !== rows[table])
      throw new BackupRefused(`the table ${table} has ${count} rows, and the backup says ${rows[table]}`);
  return manifest;
};

const parse = <Schema extends v.GenericSchema>(
  schema: Schema,
  entry: ArchiveEntry,
  name: string,
): v.InferOutput<Schema> => {
  if (entry.name !== name) throw new BackupRefused(`the backup has ${entry.name} where ${name} is expected`);
  const parsed = v.safeParse(schema, JSON.parse(new TextDecoder().decode(entry.data)));
  if (!parsed.success)
    throw new BackupRefused(
      `${name} is of another version: ${v.getDotPath(parsed.issues[0]) ?? parsed.issues[0].message}`,
    );
  return parsed.output;
};
