import { lazy } from "solid-js";
import { LazyPart } from "../../design/load-failure.tsx";
import { PopoverMenu } from "../../design/popover-menu.tsx";

const AheadList = lazy(async () => ({ default: (await import("./ahead-list.tsx")).AheadList }));

/** What runs out in the next three days, in a popover. */
export const AheadMenu = () => (
  <PopoverMenu id="ahead-menu" button="Next 72 h" label="What runs out in the next 72 hours" class="ahead">
    <LazyPart what="What runs out">
      <AheadList />
    </LazyPart>
  </PopoverMenu>
);
