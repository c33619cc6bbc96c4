import * as v from "valibot";
import { ListedToken } from "../../../../proto/operator/enrollment.ts";
import { tokenState } from "../../../domain/enrollment/bootstrap-token.ts";
import { viewOf } from "../../../http/view-of.ts";
import type { TokenRow } from "../../../store/enrollment/policies.ts";

/** A bootstrap token in a response, without its raw value. Its state is its own: whether its policy is frozen decides nothing here. */
export const TokenView = v.strictObject({
  ...v.omit(ListedToken, ["policy_name", "created_by_email"]).entries,
  state: v.picklist(["revoked", "expired", "exhausted", "active"]),
});

/** The response of a token's creation, the only one with the raw value. */
export const CreatedTokenView = v.strictObject({ ...TokenView.entries, token: v.string() });

const view = viewOf(TokenView);

/** Returns the view of a row at `now`. */
export const tokenView = (row: TokenRow, now: number): v.InferOutput<typeof TokenView> =>
  view({ ...row, state: tokenState(row, now) });

/** Returns the view of a token, without its value or the hash of it. */
export const listedTokenView = viewOf(ListedToken);
