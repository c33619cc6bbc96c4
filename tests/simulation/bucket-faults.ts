/** What happens to the bucket, drawn from the seed. */
import type { Bucket, BucketMood } from "./bucket.ts";
import { type Fault, seconds } from "./faults.ts";
import type { Lab } from "./simulate.ts";
import type { Process } from "./world.ts";

/** Changes a bucket for a while; without one, nothing happens. */
const forAWhile =
  (begin: (bucket: Bucket) => () => void): Fault =>
  (lab) => {
    const { bucket, world } = lab;
    if (bucket === undefined) return;
    world.after(seconds(lab, 1, 20), begin(bucket));
  };

const moodFault = (mood: BucketMood): Fault =>
  forAWhile((bucket) => {
    bucket.mood = mood;
    return () => {
      if (bucket.mood === mood) bucket.mood = undefined;
    };
  });

const denying = (operation: string): Fault =>
  forAWhile(({ state }) => {
    state.denied.add(operation);
    return () => void state.denied.delete(operation);
  });

/** Stops the next core that writes an object, before it can commit its rows. */
const behindPut =
  (stop: (lab: Lab, client: Process) => void): Fault =>
  (lab) => {
    const { bucket } = lab;
    if (bucket)
      bucket.afterPut = (client) => {
        bucket.afterPut = undefined;
        stop(lab, client);
      };
  };

/** The faults by name. */
export const bucketFaults: Readonly<Record<string, Fault>> = {
  "the bucket is busy": moodFault({ fault: { status: 503, code: "SlowDown" }, share: 0.8 }),
  "requests to the bucket are lost": moodFault({ fault: "lost-request", share: 0.5 }),
  "answers of the bucket are lost": moodFault({ fault: "lost-response", share: 0.5 }),
  "the bucket stores halves": moodFault({ fault: "half", share: 0.5, operation: "PUT" }),
  "the bucket is silent": moodFault({ fault: "hangs", share: 0.5 }),
  "the bucket may not be written": denying("PUT"),
  "the bucket may not be read": denying("GET"),
  "the bucket keeps what is deleted": denying("DELETE"),
  "the bucket is gone": forAWhile(({ state }) => {
    state.hasBucket = false;
    return () => (state.hasBucket = true);
  }),
  "the bucket is slow": forAWhile((bucket) => {
    const before = bucket.delayMs;
    bucket.delayMs = [200, 8_000];
    return () => (bucket.delayMs = before);
  }),
  "a core is killed behind a write": behindPut((lab, client) => {
    const at = lab.cores.findIndex(({ process }) => process === client);
    if (at >= 0) lab.killCore(at, seconds(lab, 0, 10));
  }),
  "a core is suspended behind a write": behindPut((lab, client) => {
    client.suspendedUntil = lab.world.now() + seconds(lab, 1, 20);
  }),
  "the bucket's clock jumps": ({ bucket, world }) => {
    if (bucket) bucket.state.aheadMs = world.chance.integer(-40, 40) * 86_400_000;
  },
  "the bucket's key is rotated": forAWhile((bucket) => {
    const key = {
      accessKeyId: `${bucket.key.accessKeyId}1`,
      secretAccessKey: `${bucket.key.secretAccessKey}1`,
    };
    bucket.rotateKey(key);
    return () => {
      bucket.key = key;
      bucket.rotateKey(key);
    };
  }),
};

/** Loses an object: all of it, or what follows `bytes`. */
const lose = ({ state: { objects }, lost }: Bucket, name: string, bytes = 0) => {
  const object = objects.get(name);
  if (object === undefined) return;
  lost.set(name, lost.get(name) ?? object);
  if (bytes > 0) objects.set(name, object.subarray(0, bytes));
  else objects.delete(name);
};

const loseOne =
  (bytesOf: (object: Uint8Array, lab: Lab) => number): Fault =>
  (lab) => {
    const [...objects] = lab.bucket?.state.objects ?? [];
    if (lab.bucket === undefined || objects.length === 0) return;
    const [name, object] = lab.world.chance.pick(objects);
    lose(lab.bucket, name, bytesOf(object, lab));
  };

/** What the bucket itself loses, by name: core cannot have it again. */
export const bucketLosses: Readonly<Record<string, Fault>> = {
  "the bucket loses an object": loseOne(() => 0),
  "the bucket truncates an object": loseOne((object, { world }) =>
    world.chance.integer(1, object.length - 1),
  ),
  "the bucket is set back": forAWhile((bucket) => {
    const before = new Map(bucket.state.objects);
    return () => {
      const { objects } = bucket.state;
      for (const name of [...objects.keys()]) if (!before.has(name)) lose(bucket, name);
      for (const [name, object] of before) {
        if (!objects.has(name) && !bucket.lost.has(name)) bucket.revived.add(name);
        objects.set(name, object);
      }
    };
  }),
  "listings of the bucket are behind": (lab) => {
    const { bucket, world } = lab;
    if (bucket === undefined) return;
    bucket.hasListedLate = true;
    const { state } = bucket;
    const known = new Set(state.objects.keys());
    const until = world.now() + seconds(lab, 5, 20);
    const hide = () => {
      if (world.now() > until) return state.unlisted.clear();
      for (const name of state.objects.keys()) if (!known.has(name)) state.unlisted.add(name);
      world.after(50, hide);
    };
    hide();
  },
};
