import type { Entropy } from "#kit/entropy.ts";
import type { BackendFault } from "./backend.ts";
import type { BucketFault } from "./bucket.ts";
import type {
  AccountsFault,
  AdoptionFault,
  RegisterFault,
  SinkFault,
  WriterFault,
} from "./core.ts";
import type { ServerFault } from "./database.ts";
import type { ReaderFault, SourceFault } from "./exporter.ts";
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
  bucket?: BucketFault;
  writer?: WriterFault;
  adoption?: AdoptionFault;
  reader?: ReaderFault;
  /** Of the names of objects. */
  nonces?: Entropy;
  /** Of the law of hours. */
  hour?: HourFault;
}
