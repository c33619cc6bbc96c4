import { LRUCache } from "lru-cache";
import { Problem } from "#functions/problems.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import { StaleSequence } from "./publisher.ts";
import type { QueueStreams } from "./queue-streams.ts";
import { type QueueView, storedOf, viewKey } from "./queue-view.ts";

/** The queues that this core has read or written. A view is used under the lock of its queue only. */
export interface Views {
  /** Runs `work` on a queue's view, and again on a new one when another core has written since the view was read. */
  use<Result>(
    queue: QueueName,
    work: (view: QueueView, isFresh: boolean) => Promise<Result>,
  ): Promise<Result>;
  forget(queue: QueueName): void;
  clear(): void;
}

/** Views in memory; one that was evicted is read again. */
const viewsMax = 20_000;
const attemptsMax = 5;

/** Makes the views, empty. After any failure a view is dropped. */
export const createViews = (streams: Pick<QueueStreams, "load">): Views => {
  const views = new LRUCache<string, QueueView>({ max: viewsMax });
  return {
    async use(queue, work) {
      const key = viewKey(queue);
      let stored = -1n;
      for (let attempt = 1; ; attempt++) {
        const cached = views.get(key);
        try {
          const view = cached ?? (await streams.load(queue));
          // While others move the queue, each attempt is at another one of its blocks.
          const storedNow = storedOf(view);
          if (storedNow > stored) attempt = 1;
          stored = storedNow;
          const result = await work(view, cached === undefined);
          views.set(key, view);
          return result;
        } catch (error) {
          views.delete(key);
          if (!(error instanceof StaleSequence)) throw error;
          if (attempt >= attemptsMax) throw new Problem("stream_unavailable", { cause: error });
        }
      }
    },
    forget: (queue) => void views.delete(viewKey(queue)),
    clear: () => views.clear(),
  };
};
