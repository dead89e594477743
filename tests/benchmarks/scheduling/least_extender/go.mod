module gpustack/least

go 1.24
