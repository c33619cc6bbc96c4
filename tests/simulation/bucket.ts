/** The bucket of a history: the model of S3, whose calls take virtual time, and core's own client of it. */
import { hashParts } from "#functions/node/objects/send-http.ts";
import type { ObjectStore } from "#functions/objects/object-store.ts";
import type { S3Credentials, SendHttp } from "#functions/objects/s3-calls.ts";
import { createS3Store } from "#functions/objects/s3-store.ts";
import { createS3Model, type S3Fault, type S3ModelState } from "../fakes/s3-model.ts";
import type { Process, World } from "./world.ts";

/** How it treats requests: what becomes of one, and how often. */
export interface BucketMood {
  fault: S3Fault;
  share: number;
  /** Of these alone. */
  operation?: string;
}

/** Changes a client of the bucket: a planted fault. */
export type BucketFault = (store: ObjectStore) => ObjectStore;

/** The bucket. */
export interface Bucket {
  readonly state: S3ModelState;
  mood: BucketMood | undefined;
  /** Milliseconds that a request travels, and its response: at least, and at most. */
  delayMs: readonly [number, number];
  /** What processes sign with. */
  key: S3Credentials;
  /** Replaces the key that the bucket accepts. */
  rotateKey(key: S3Credentials): void;
  /** Called with its client once an object is stored, before the answer. */
  afterPut: ((client: Process) => void) | undefined;
  /** What it has, and had before it lost it. */
  readonly written: Pick<ReadonlyMap<string, Uint8Array>, "get" | "has">;
  /** Objects that it has lost in whole or in part, as they were. */
  readonly lost: Map<string, Uint8Array>;
  /** Names that it had deleted, and has again. */
  readonly revived: Set<string>;
  /** A listing has ever lacked an object. */
  hasListedLate: boolean;
  /** Reports whether it does what it should. */
  isWell(): boolean;
  /** Ends every fault. */
  heal(): void;
  /** Returns a client for a process. */
  open(client: Process): ObjectStore;
}

/** The location as `ingest_store` has it. */
export const bucketLocation = "s3://telemetry/";
/** The path of its objects. */
const root = "/telemetry/";
/** The database as footers of objects name it. */
export const bucketLineage = "simulation";

const usualDelayMs = [1, 20] as const;
const firstKey: S3Credentials = { accessKeyId: "key-1", secretAccessKey: "secret-1" };

/** Creates an empty bucket. */
export const createBucket = (world: World, change: BucketFault = (store) => store): Bucket => {
  const process = world.process("bucket");
  const { state, send } = createS3Model(world.clockOf(process));
  state.isConditional = world.chance.isLikely(0.7);
  state.pageMax = 3;
  state.fault = ({ operation }) => {
    const { mood } = bucket;
    if (mood === undefined || (mood.operation ?? operation) !== operation) return null;
    return world.chance.isLikely(mood.share) ? mood.fault : null;
  };

  /** Sends a request of a client, which has its effect whatever becomes of the client. */
  const sendFor =
    (client: Process): SendHttp =>
    (request) => {
      const travel = () => world.chance.integer(...bucket.delayMs);
      const answered = Promise.withResolvers<Awaited<ReturnType<SendHttp>>>();
      const { signal } = request;
      signal.throwIfAborted();
      signal.addEventListener("abort", () => answered.reject(signal.reason), { once: true });
      const settle = (act: () => void) => world.as(client, () => void world.after(travel(), act));
      const serve = () =>
        void send({ ...request, signal: new AbortController().signal }).then(
          (response) => {
            if (request.method === "PUT" && response.status === 200) {
              // It may have lost a half of it that an earlier attempt had stored.
              bucket.lost.delete(
                decodeURIComponent(new URL(request.url).pathname.slice(root.length)),
              );
              bucket.afterPut?.(client);
            }
            settle(() => answered.resolve(response));
          },
          (cause) => settle(() => answered.reject(cause)),
        );
      world.as(process, () => void world.after(travel(), serve));
      return answered.promise;
    };

  const bucket: Bucket = {
    state,
    mood: undefined,
    afterPut: undefined,
    delayMs: usualDelayMs,
    key: firstKey,
    written: {
      has: (name) => state.objects.has(name),
      get: (name) => bucket.lost.get(name) ?? state.objects.get(name),
    },
    lost: new Map(),
    revived: new Set(),
    hasListedLate: false,
    rotateKey: ({ accessKeyId, secretAccessKey }) => {
      state.keys.clear();
      state.keys.set(accessKeyId, secretAccessKey);
    },
    isWell: () =>
      bucket.mood === undefined &&
      bucket.delayMs === usualDelayMs &&
      state.hasBucket &&
      state.denied.size === 0 &&
      state.unlisted.size === 0 &&
      state.keys.has(bucket.key.accessKeyId),
    heal: () => {
      bucket.mood = undefined;
      bucket.afterPut = undefined;
      bucket.delayMs = usualDelayMs;
      state.hasBucket = true;
      state.denied.clear();
      state.unlisted.clear();
      bucket.rotateKey(bucket.key);
    },
    open: (client) =>
      change(
        createS3Store(
          { bucketUrl: "http://s3/telemetry/", prefix: "", region: "eu-1" },
          {
            send: sendFor(client),
            hash: hashParts,
            credentials: { current: async () => bucket.key, reject: () => undefined },
            clock: world.clockOf(client),
            entropy: world.entropy,
          },
        ),
      ),
  };
  return bucket;
};
