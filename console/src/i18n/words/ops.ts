import type { Area } from "./area";

export const ops = {} as const satisfies Area;
