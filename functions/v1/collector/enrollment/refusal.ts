import { viewOf } from "#functions/http/route.ts";
import { RefusalGroup } from "#proto/operator/enrollment.ts";

/** Returns the view of a group of refusals. */
export const refusalView = viewOf(RefusalGroup);
