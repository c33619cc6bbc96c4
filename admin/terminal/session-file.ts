import {
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { ActionFailure, signInError } from "./exit-codes.ts";

const Session = v.object({
  url: v.string(),
  access_token: v.string(),
  /** RFC 3339. */
  expires_at: v.string(),
  /** Null for a workload. */
  session_id: v.nullable(v.string()),
});

/** The session of `svc-admin login`. */
type StoredSession = v.InferOutput<typeof Session>;

const StoredText = v.fallback(v.nullable(v.pipe(v.string(), v.parseJson(), Session)), null);

/** Returns the path of the session: `$XDG_CONFIG_HOME/svc-admin/session.json`, by default below `~/.config`. */
export const sessionPath = (env: Readonly<Record<string, string | undefined>>): string =>
  join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config"), "svc-admin", "session.json");

/** Reads the session; null without one. Throws when others may read the file. */
export const readSession = (path: string): StoredSession | null => {
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw signInError(`${path} is open to others: chmod it to 0600, or sign in again`);
    return v.parse(StoredText, readFileSync(path, "utf8"));
  } catch (error) {
    if (error instanceof ActionFailure) throw error;
    return null;
  }
};

/** Replaces the session by one rename; only the person may read it. */
export const writeSession = (path: string, session: StoredSession): void => {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(session, null, 2)}\n`, { mode: 0o600, flag: "w" });
  chmodSync(temporary, 0o600);
  renameSync(temporary, path);
};

/** Deletes the session. */
export const deleteSession = (path: string): void => rmSync(path, { force: true });
