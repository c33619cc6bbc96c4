import type { BackendFault } from "./backend.ts";
import type { AccountsFault, RegisterFault, SinkFault } from "./core.ts";
import type { ServerFault } from "./database.ts";
import type { SourceFault } from "./exporter.ts";
import type { HostFault } from "./host.ts";
import type { HourFault } from "./hour-laws.ts";

/** A planted mistake: what it changes, each at a seam of the product or of its models. */
export interface Plant extends HostFault {
  sink?: SinkFault;
  register?: RegisterFault;
  accounts?: AccountsFault;
  server?: ServerFault;
  missesRestores?: boolean;
  backend?: BackendFault;
  source?: SourceFault;
  /** Of the law of hours. */
  hour?: HourFault;
}
