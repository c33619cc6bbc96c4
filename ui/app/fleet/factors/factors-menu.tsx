import { lazy } from "solid-js";
import { LazyPart } from "../../design/load-failure.tsx";
import { PopoverMenu } from "../../design/popover-menu.tsx";
import type { FleetView } from "../view/view-state.ts";

const FactorList = lazy(async () => ({ default: (await import("./factor-list.tsx")).FactorList }));

/** What the hosts of the view have in common, in a popover. */
export const FactorsMenu = (props: { view: FleetView }) => (
  <PopoverMenu
    id="factors-menu"
    button="In common"
    label="What these hosts have in common"
    class="factors"
  >
    <LazyPart what="What these hosts have in common">
      <FactorList view={props.view} />
    </LazyPart>
  </PopoverMenu>
);
