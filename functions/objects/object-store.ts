/**
 * Where the bytes of telemetry are when PostgreSQL keeps only their order. Names have segments of letters, digits, `.`, `_` and `-` with `/`
 * between them, and are listed in the order of their bytes.
 */
export interface ObjectStore {
  /**
   * Stores an object durably, from parts that follow each other. A repeated call with the same bytes succeeds; one with other bytes throws
   * `ObjectExists` and changes nothing.
   */
  put(name: string, parts: readonly Uint8Array[], signal?: AbortSignal): Promise<void>;
  /** Returns a part of an object. Throws `ObjectMissing`, and `ObjectChanged` if the object is shorter than `offset` and `length`. */
  read(name: string, range: ObjectRange): Promise<Uint8Array>;
  /** Returns the objects whose names begin with `prefix` and follow `after`; fewer than `limit` only at the end. */
  list(query: ObjectQuery): Promise<StoredObject[]>;
  /** Deletes objects, and ignores those that are missing. */
  delete(names: readonly string[], signal?: AbortSignal): Promise<void>;
  /** Returns what the last answers revealed about the store that may harm telemetry, as sentences. */
  hazards(): readonly string[];
}

/** Bytes from `offset` on, or the last ones, which are all of a shorter object. */
export type ObjectRange = { offset: number; length: number } | { last: number };

/** Which objects to list. */
export interface ObjectQuery {
  prefix: string;
  after?: string | undefined;
  limit: number;
}

/** An object as listed. */
export interface StoredObject {
  name: string;
  bytes: number;
}

/** Reports that the store answers, and has no such object. */
export class ObjectMissing extends Error {
  override readonly name = "ObjectMissing";

  constructor(object: string) {
    super(`the object ${object} is missing`);
  }
}

/** Reports an object that is shorter than core wrote it, or of another kind. */
export class ObjectChanged extends Error {
  override readonly name = "ObjectChanged";

  constructor(object: string) {
    super(`the object ${object} was changed or truncated`);
  }
}

/** Reports another object of the same name. */
export class ObjectExists extends Error {
  override readonly name = "ObjectExists";

  constructor(object: string) {
    super(`the object ${object} exists with other bytes`);
  }
}

/** Reports that the store does not work at present, or does not permit it; the message says why. A `put` may have taken effect. */
export class ObjectStoreUnavailable extends Error {
  override readonly name = "ObjectStoreUnavailable";
  readonly code = "OBJECT_STORE_UNAVAILABLE";
}

/** The names of telemetry begin with this. */
export const telemetryPrefix = "o/";

const nameForm = /^o\/([0-9a-f]{13})\/([0-9a-f]{3})-[0-9a-f]+$/;

/** Returns the name of a telemetry object. Names sort by id; a folder has at most 4,096 ids. */
export const objectNameOf = (id: number, nonce: string): string => {
  const digits = id.toString(16).padStart(16, "0");
  return `${telemetryPrefix}${digits.slice(0, 13)}/${digits.slice(13)}-${nonce}`;
};

/** Returns the id in the name of a telemetry object; null for any other name. */
export const objectIdOf = (name: string): number | null => {
  const [, folder, rest] = nameForm.exec(name) ?? [];
  return folder === undefined ? null : Number.parseInt(`${folder}${rest}`, 16);
};
