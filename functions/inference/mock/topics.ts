import { changes, refusals } from "./audit-topics.ts";
import { certificates } from "./certificates-topic.ts";
import { attention, drift, queues, states, versions } from "./fleet-topics.ts";
import { neverForwarded, stopped } from "./forwarding-topics.ts";
import { host } from "./host-topic.ts";
import { ingest } from "./ingest-topic.ts";
import { losses } from "./losses-topic.ts";
import { enrollments, groups } from "./population-topics.ts";
import type { Topic } from "./topic.ts";

/** What the mock understands; the first that matches answers. */
export const topics: readonly Topic[] = [
  host,
  changes,
  losses,
  neverForwarded,
  stopped,
  ingest,
  certificates,
  refusals,
  queues,
  versions,
  drift,
  states,
  groups,
  enrollments,
  attention,
];
