import { attention, queues, states, versions } from "./fleet-topics.ts";
import { neverForwarded, stopped } from "./forwarding-topics.ts";
import { host } from "./host-topic.ts";
import { certificates, changes, drift, refusals } from "./identity-topics.ts";
import { ingest } from "./ingest-topic.ts";
import { enrollments, groups } from "./population-topics.ts";
import type { Topic } from "./topic.ts";

/** What the mock understands; the first that matches answers. */
export const topics: readonly Topic[] = [
  host,
  changes,
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
