import * as v from "valibot";
import { ListedPolicy } from "../../../../proto/operator/enrollment.ts";
import { viewOf } from "../../../http/view-of.ts";
import type { PolicyRow } from "../../../store/enrollment/policies.ts";
import type { ListedPolicyRow } from "../../../store/enrollment/report.ts";

/** A policy in a response. */
export const PolicyView = v.omit(ListedPolicy, ["created_by_email", "tokens"]);

const stateOf = ({ frozenAt }: PolicyRow): "active" | "frozen" => (frozenAt === null ? "active" : "frozen");

const view = viewOf(PolicyView);

/** Returns the view of a row. */
export const policyView = (row: PolicyRow): v.InferOutput<typeof PolicyView> => view({ ...row, state: stateOf(row) });

const listedView = viewOf(ListedPolicy);

/** Returns the view of a policy with its tokens by state. */
export const listedPolicyView = (row: ListedPolicyRow): ListedPolicy => listedView({ ...row, state: stateOf(row) });
