import { RefusalGroup } from "../../../../proto/operator/enrollment.ts";
import { viewOf } from "../../../http/view-of.ts";

/** Returns the view of a group of refusals. */
export const refusalView = viewOf(RefusalGroup);
