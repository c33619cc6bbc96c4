import type { Scope } from "../../../proto/operator/scopes.ts";

/** A person of the directory who calls core, with the scopes the database holds at this moment. */
export interface Operator {
  userId: string;
  email: string;
  scopes: readonly Scope[];
}
