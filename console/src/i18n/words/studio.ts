import type { Area } from "./area";

export const studio = {} as const satisfies Area;
