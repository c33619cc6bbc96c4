import { withRules } from "#collector/processors/with-rules.ts";
import type { Queue } from "#collector/queue/queue.ts";
import { systemClock } from "#kit/clock.ts";
import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import { createTestLog } from "#tests/fakes/log.ts";

/** Creates a source with rules that appends to a queue what `append` of the result is given. */
export const createRuledSource = async (queue: Queue, processors: readonly ProcessorConfig[]) => {
  let append: Queue["append"] = queue.append;
  let received = 0;
  const create = withRules((_, dependencies) => {
    append = (records, options) => {
      received += "count" in records ? records.count : records.length;
      return dependencies.append(records, options);
    };
    return {
      name: "test",
      start: async () => undefined,
      stop: async () => undefined,
      counters: () => ({ received }),
    };
  });
  const source = await create(
    { type: "host_metrics", intervalSeconds: 60, processors: [...processors] },
    {
      append: queue.append,
      refused: queue.accounts.refused,
      checkpoints: queue.checkpoints,
      clock: systemClock,
      log: createTestLog(),
    },
  );
  return { source, append: (...call: Parameters<Queue["append"]>) => append(...call) };
};
