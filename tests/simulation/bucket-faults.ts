/** What happens to the bucket, drawn from the seed. */
import type { Bucket, BucketMood } from "./bucket.ts";
import { type Fault, seconds } from "./faults.ts";

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
